//! The cost of a call for the server.

use std::time::Duration;

use libtest_mimic::Trial;
use test_servers::{free_ports, redis::Server, trials};
use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, ConversationId, HistoryStore, HistoryStoreExt, List, Load, LoadLimit, Loaded,
    Prefix, Seq,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{TestServer, append, cluster, command, compact, conversation, patient, say, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_turn_is_one_command_for_the_load_and_one_for_the_append,
        a_deletion_is_three_commands,
        a_first_turn_is_two_commands_for_the_load_and_one_for_the_append,
        a_server_that_divides_its_keys_is_asked_only_once,
        expiring_conversations_are_created_in_two_steps,
        an_append_that_names_no_epoch_registers_only_a_new_conversation,
        a_page_of_a_listing_costs_the_same_among_many_conversations,
        an_unchanged_window_costs_three_small_commands,
        added_exchanges_cost_no_window,
        a_turn_reads_only_what_it_needs,
        a_long_log_is_read_no_further_than_the_limit,
        pages_end_by_size_but_have_at_least_one_exchange,
        removed_scripts_are_sent_again,
        removed_scripts_are_sent_again_to_a_cluster,
    ]
}

async fn a_turn_is_one_command_for_the_load_and_one_for_the_append() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "one").await;
    say(&test.store, &id, "two").await;
    test.store.load(&id, Load::new()).await.unwrap();
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    test.store.load(&id, Load::new()).await.unwrap();
    let compact = compact(CompactionVersion::NONE, 1, None);
    let appended = test.store.append(&id, append("three").compact(compact)).await.unwrap();
    assert!(matches!(appended.compaction, Some(CompactOutcome::Stored(_))));
    assert_eq!((test.calls("evalsha"), test.calls("eval")), (2, 0));
}

const READS: [&str; 7] = ["hmget", "exists", "hget", "llen", "hlen", "lindex", "lrange"];

/// Creates a conversation of three exchanges with a large summary.
async fn summarized() -> (TestServer, ConversationId) {
    let test = TestServer::new().await;
    let id = conversation("a");
    for text in ["one", "two", "three"] {
        say(&test.store, &id, text).await;
    }
    let compact = compact(CompactionVersion::NONE, 1, Some(&"s".repeat(100_000)));
    let incarnation = window(&test.store, &id).await.revision.incarnation();
    test.store.compact(&id, incarnation, compact).await.unwrap();
    (test, id)
}

async fn an_unchanged_window_costs_three_small_commands() {
    let (mut test, id) = summarized().await;
    let known = window(&test.store, &id).await.known();
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    assert_eq!(test.store.load(&id, Load::new().known(known.clone())).await.unwrap(), Loaded::Unchanged);
    assert_eq!(READS.map(|command| test.calls(command)), [1, 1, 0, 0, 0, 1, 0]);
}

/// Neither the exchanges that the caller knows nor the summary are read.
async fn added_exchanges_cost_no_window() {
    let (mut test, id) = summarized().await;
    let known = window(&test.store, &id).await.known();
    say(&test.store, &id, "four").await;
    say(&test.store, &id, "five").await;
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    let loaded = test.store.load(&id, Load::new().known(known).or_added()).await.unwrap();
    let Loaded::Added(added) = loaded else { panic!("{loaded:?}") };
    assert_eq!(added.exchanges.iter().map(|recorded| recorded.seq.get()).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(READS.map(|command| test.calls(command)), [1, 0, 0, 2, 1, 2, 2]);
}

/// The checks for damage read the lengths of the lists.
async fn a_turn_reads_only_what_it_needs() {
    let (mut test, id) = summarized().await;
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    assert_eq!(texts(&test.store, &id).await, ["two", "three"]);
    assert_eq!(READS.map(|command| test.calls(command)), [2, 0, 0, 2, 1, 0, 2], "the compaction is one of them");
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    say(&test.store, &id, "four").await;
    assert_eq!(READS.map(|command| test.calls(command)), [1, 0, 1, 2, 1, 0, 0], "the exchange's id is one of them");
}

async fn a_long_log_is_read_no_further_than_the_limit() {
    let mut test = TestServer::new().await;
    let id = conversation("long");
    for n in 0..1_000 {
        say(&test.store, &id, &n.to_string()).await;
    }
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    let limit = LoadLimit::new(60, usize::MAX).unwrap();
    let Loaded::Window(window) = test.store.load(&id, Load::new().limit(limit)).await.unwrap() else { unreachable!() };
    assert_eq!((window.exchanges.len(), window.exchanges[0].seq, window.truncated), (30, Seq::new(970), true));
    assert_eq!(test.calls("lrange"), 2, "the window, and its part of the index");
    assert!(test.calls("lindex") < 2 * 10 + 5, "its start is found by binary search");
    let output: String = test.run(&["INFO", "stats"]);
    let sent = output.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap();
    assert!(sent.trim().parse::<u64>().unwrap() < 60 * 250, "{sent} bytes were sent");
}

async fn pages_end_by_size_but_have_at_least_one_exchange() {
    let test = TestServer::new().await;
    let id = conversation("large");
    for _ in 0..5 {
        say(&test.store, &id, &"x".repeat(1_500_000)).await;
    }
    say(&test.store, &id, &"y".repeat(6_000_000)).await;
    assert_eq!(page_sizes(&test.store, &id, 100).await, [2, 2, 1, 1]);
}

async fn removed_scripts_are_sent_again() {
    let mut test = TestServer::new().await;
    let store = test.store.clone();
    every_call(&store, || test.run::<()>(&["SCRIPT", "FLUSH"])).await;
    assert!(test.calls("eval") >= 7, "the scripts were missing each time");
}

async fn removed_scripts_are_sent_again_to_a_cluster() {
    let store = patient().connect_cluster(cluster().urls()).await.unwrap();
    let mut nodes: Vec<_> = cluster().connections();
    every_call(&store, || {
        for node in &mut nodes {
            command(&["SCRIPT", "FLUSH"]).query::<()>(node).unwrap();
        }
    })
    .await;
}

/// Returns the number of scripts that ran since the statistics were reset, and resets them.
fn scripts(test: &mut TestServer) -> u64 {
    // A script that the server did not have was sent twice, and counted as `evalsha` and as `eval`.
    let ran = test.calls("evalsha");
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    ran
}

async fn a_deletion_is_three_commands() {
    let mut test = TestServer::new().await;
    for id in ["a", "b"].map(conversation) {
        say(&test.store, &id, "one").await;
        scripts(&mut test);
        test.store.delete(&id).await.unwrap();
        assert_eq!(scripts(&mut test), 3, "the registry, the conversation, and its name");
    }
}

async fn a_first_turn_is_two_commands_for_the_load_and_one_for_the_append() {
    let mut test = TestServer::new().await;
    for id in ["a", "b"].map(conversation) {
        scripts(&mut test);
        let Loaded::Absent(epoch) = test.store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
        assert_eq!(scripts(&mut test), 2);
        test.store.append(&id, append("one").since(Some(epoch))).await.unwrap();
        assert_eq!(scripts(&mut test), 1);
    }
}

async fn first_turn(store: &RedisStore, id: &str) {
    let id = conversation(id);
    let Loaded::Absent(epoch) = store.load(&id, Load::new()).await.unwrap() else { panic!("it exists") };
    store.append(&id, append("one").since(Some(epoch))).await.unwrap();
    assert_eq!(texts(store, &id).await, ["one"]);
}

/// A node of a Cluster refuses a script whose keys are in several slots, also if it has all slots.
async fn a_server_that_divides_its_keys_is_asked_only_once() {
    let mut ports = free_ports();
    let [port, bus] = [(); 2].map(|()| ports.next().unwrap().to_string());
    let settings = ["--save", "", "--bind", "127.0.0.1", "--port", &port, "--cluster-port", &bus];
    let mut test = TestServer::on(Server::with(&[&settings[..], &["--cluster-enabled", "yes"]].concat())).await;
    test.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    first_turn(&test.store, "a").await;
    first_turn(&test.store, "b").await;
    scripts(&mut test);
    first_turn(&test.store, "c").await;
    assert_eq!(scripts(&mut test), 5, "three for the loads, one to register, and one to append");
}

async fn expiring_conversations_are_created_in_two_steps() {
    let mut test = TestServer::new().await;
    let store = patient().expire_after(Duration::from_secs(9)).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    let Loaded::Absent(epoch) = store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
    scripts(&mut test);
    store.append(&id, append("one").since(Some(epoch))).await.unwrap();
    assert_eq!(scripts(&mut test), 2);
}

async fn an_append_that_names_no_epoch_registers_only_a_new_conversation() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "one").await;
    assert_eq!(scripts(&mut test), 3, "it is attempted, registered and stored");
    say(&test.store, &id, "two").await;
    assert_eq!(scripts(&mut test), 1);
}

async fn a_page_of_a_listing_costs_the_same_among_many_conversations() {
    let mut test = TestServer::new().await;
    let mut costs = Vec::new();
    for (from, to) in [(0, 200), (200, 2_000)] {
        for number in from..to {
            say(&test.store, &conversation(&format!("user {number:05}")), "x").await;
        }
        scripts(&mut test);
        let page = test.store.list(&Prefix::all(), None, 20).await.unwrap();
        assert_eq!((page.conversations.len(), page.next.is_some()), (20, true));
        costs.push(scripts(&mut test));
        let last = page.next.unwrap();
        assert_eq!(test.store.list(&Prefix::all(), Some(&last), 20).await.unwrap().conversations.len(), 20);
    }
    assert_eq!(costs, [16 + 20; 2], "each slot of the registry, and each conversation");
}

/// Makes every call of the store. Runs `before` before each of them.
async fn every_call(store: &RedisStore, mut before: impl FnMut()) {
    let id = conversation("every call");
    store.delete(&id).await.unwrap();
    for text in ["one", "two", "three", "four"] {
        before();
        say(store, &id, text).await;
    }
    before();
    let compact = compact(CompactionVersion::NONE, 1, None);
    let incarnation = store.read(&id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation();
    store.compact(&id, incarnation, compact).await.unwrap();
    before();
    assert_eq!(texts(store, &id).await, ["two", "three", "four"]);
    before();
    store.conversation(&id).truncate(Seq::new(3)).await.unwrap();
    before();
    assert_eq!(store.conversation(&id).keep_last_turns(1).await.unwrap(), 2);
    before();
    assert_eq!(store.read(&id, Seq::FIRST, 9).await.unwrap().exchanges.len(), 1);
}
