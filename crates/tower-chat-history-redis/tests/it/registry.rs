//! The registry of conversations: names that outlive their conversations, and erasures that it forgets.

use std::time::Duration;

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, Appended, ConversationId, Epoch, Erase, Expect, HistoryStore, List, Load, Loaded, Prefix, Seq, StoreError,
    Truncate,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{PARTS, TestServer, conversation, exchange, key, patient, say, slot_keys, texts, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_listing_leaves_out_names_without_a_conversation,
        names_without_a_conversation_are_counted_and_erased,
        a_conversation_without_a_name_is_erased_by_its_id,
        new_conversations_remove_the_names_of_expired_ones,
        a_log_that_is_truncated_to_nothing_leaves_no_name,
        a_refused_first_append_leaves_no_name,
        an_erasure_leaves_the_id_only_in_the_key_that_keeps_calls_out,
        turns_from_before_a_forgotten_erasure_are_refused,
        a_registry_that_was_lost_is_begun_anew,
        a_clock_that_is_ahead_does_not_keep_conversations_from_being_created,
        a_deletion_concerns_no_longer_ids,
    ]
}

/// Removes a conversation as if it had expired.
fn expire(test: &mut TestServer, id: &ConversationId) {
    for part in PARTS {
        test.run::<u64>(&["DEL", &key(id, part)]);
    }
}

/// Makes a name look as if it had been registered long ago, in this order.
fn age(test: &mut TestServer, id: &ConversationId, number: usize) {
    let [_, registered, ..] = slot_keys(id);
    test.run::<()>(&["ZADD", &registered, "XX", &number.to_string(), id.as_str()]);
}

fn all() -> Prefix {
    Prefix::all()
}

async fn epoch(test: &TestServer, id: &ConversationId) -> Epoch {
    match test.store.load(id, Load::new()).await.unwrap() {
        Loaded::Absent(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

async fn a_listing_leaves_out_names_without_a_conversation() {
    let mut test = TestServer::new().await;
    let [young, old, present] = ["old", "young", "present"].map(conversation);
    for id in [&young, &old, &present] {
        say(&test.store, id, "x").await;
    }
    for id in [&young, &old] {
        expire(&mut test, id);
    }
    age(&mut test, &old, 1);
    age(&mut test, &present, 1);
    let listed = test.store.list(&all(), None, 9).await.unwrap();
    assert_eq!((listed.conversations.len(), &listed.conversations[0].id), (1, &present));
    assert_eq!(test.names(), [young.as_str(), present.as_str()], "the young name may be that of a new conversation");
}

async fn names_without_a_conversation_are_counted_and_erased() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "x").await;
    expire(&mut test, &id);
    for under in [Prefix::from(&id), "test".parse().unwrap(), all()] {
        let total = test.store.count(&under).await.unwrap().total();
        assert_eq!((total.conversations, total.names), (0, 1));
    }
    let removed = test.store.erase(&all(), None, 9).await.unwrap().removed.total();
    assert_eq!((removed.conversations, removed.names), (0, 1));
    assert_eq!(test.names(), [] as [&str; 0]);
    assert!(test.store.count(&all()).await.unwrap().total().is_nothing());
}

/// The name was lost in a failover of its node, or evicted.
async fn a_conversation_without_a_name_is_erased_by_its_id() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "x").await;
    for key in slot_keys(&id) {
        test.run::<u64>(&["DEL", &key]);
    }
    let under = Prefix::from(&id);
    assert_eq!(test.store.list(&under, None, 9).await.unwrap().conversations.len(), 0);
    assert_eq!(test.store.count(&under).await.unwrap().total().exchanges, 1);
    test.store.bar(&under).await.unwrap();
    assert_eq!(test.store.erase(&under, None, 9).await.unwrap().removed.total().exchanges, 1);
    assert_eq!(test.conversation_keys(), 0);
}

async fn new_conversations_remove_the_names_of_expired_ones() {
    let mut test = TestServer::new().await;
    let hour = patient().expire_after(Duration::from_secs(3_600)).connect(test.server.url()).await.unwrap();
    // Conversations of one slot.
    let probe = slot_keys(&conversation("0"));
    let mut ids = (0..).map(|number| conversation(&number.to_string())).filter(|id| slot_keys(id) == probe);
    let old: Vec<_> = ids.by_ref().take(40).collect();
    for (number, id) in old.iter().enumerate() {
        say(&hour, id, "x").await;
        age(&mut test, id, number + 1);
        if number != 3 {
            expire(&mut test, id);
        }
    }
    let new = ids.next().unwrap();
    say(&hour, &new, "x").await;
    let mut left: Vec<_> = [&old[3], &new].into_iter().chain(&old[32..]).map(ToString::to_string).collect();
    left.sort();
    assert_eq!(test.names(), left, "the oldest 32 are looked at");
    let [_, registered, ..] = probe;
    assert!(test.run::<f64>(&["ZSCORE", &registered, old[3].as_str()]) > 40.0, "it counts as old later");
    assert_eq!(texts(&hour, &old[3]).await, ["x"]);
    // A store without expiry does not look.
    for id in &old[32..] {
        test.store.delete(id).await.unwrap();
    }
    assert_eq!(test.names().len(), 2);
}

async fn a_log_that_is_truncated_to_nothing_leaves_no_name() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "x").await;
    let revision = window(&test.store, &id).await.revision;
    test.store.truncate(&id, revision, Seq::FIRST, None).await.unwrap();
    assert_eq!(test.names(), [] as [&str; 0]);
    say(&test.store, &id, "x").await;
    assert_eq!(test.names(), [id.as_str()]);
}

async fn a_refused_first_append_leaves_no_name() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for since in [None, Some(epoch(&test, &id).await)] {
        let mut exchange = exchange("x");
        exchange.continues = Some(Seq::new(7));
        let refused = test.store.append(&id, Append::new(Expect::Absent, exchange).since(since)).await;
        assert!(matches!(refused, Err(StoreError::ContinuesUnknown { .. })), "{refused:?}");
        assert_eq!(test.names(), [] as [&str; 0]);
    }
    say(&test.store, &id, "x").await;
    assert_eq!(test.names(), [id.as_str()]);
}

async fn an_erasure_leaves_the_id_only_in_the_key_that_keeps_calls_out() {
    let mut test = TestServer::new().await;
    let [deleted, erased] = ["secret-deleted", "secret-erased"].map(conversation);
    for id in [&deleted, &erased] {
        say(&test.store, id, "x").await;
    }
    test.store.delete(&deleted).await.unwrap();
    test.store.bar(&Prefix::from(&erased)).await.unwrap();
    test.store.erase(&Prefix::from(&erased), None, 9).await.unwrap();
    for found in test.run::<Vec<String>>(&["KEYS", "*"]) {
        let contents: Vec<u8> = test.run(&["DUMP", &found]);
        assert!(!String::from_utf8_lossy(&contents).contains("secret"), "{found}");
        if found.contains("secret") {
            assert!(found.ends_with(":gone"), "{found}");
            assert!((1..=3_600_000).contains(&test.run::<i64>(&["PTTL", &found])), "{found}");
        }
    }
}

/// Appends an exchange, unless the conversation was erased since the epoch.
async fn append(store: &RedisStore, id: &ConversationId, since: Epoch) -> Result<Appended, StoreError> {
    store.append(id, Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(since))).await
}

async fn turns_from_before_a_forgotten_erasure_are_refused() {
    let mut test = TestServer::new().await;
    let [id, other] = ["a", "b"].map(conversation);
    let first = epoch(&test, &id).await;
    test.store.bar(&Prefix::from(&other)).await.unwrap();
    let second = epoch(&test, &id).await;
    append(&test.store, &id, first).await.unwrap();
    test.store.bar(&Prefix::from(&other)).await.unwrap();
    // The erasures that the registry remembers by default, without the one from before.
    let [_, _, erasures, epochs] = slot_keys(&id);
    let fill = "for n = 1, 100000 do redis.call('ZADD', KEYS[1], ARGV[1] + n, n) end";
    let now = test.run::<u64>(&["HGET", &epochs, "epoch"]);
    test.run::<()>(&["EVAL", fill, "1", &erasures, &now.to_string()]);
    test.run::<()>(&["HSET", &epochs, "clock", &(now + 100_000).to_string(), "epoch", &(now + 100_000).to_string()]);
    test.store.bar(&Prefix::from(&other)).await.unwrap();
    assert_eq!(test.run::<u64>(&["ZCARD", &erasures]), 100_000);
    for (since, is_refused) in
        [(first, true), (second, true), (Epoch::new(now + 1), false), (Epoch::new(now * 2), true)]
    {
        let appended = append(&test.store, &id, since).await;
        assert_eq!(matches!(appended, Err(StoreError::Gone)), is_refused, "{since:?} {appended:?}");
        assert!(is_refused || appended.is_ok());
    }
}

/// The keys of the registry were lost in a failover or evicted.
async fn a_registry_that_was_lost_is_begun_anew() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "one").await;
    test.store.delete(&id).await.unwrap();
    let before = epoch(&test, &id).await;
    for key in slot_keys(&id) {
        test.run::<u64>(&["DEL", &key]);
    }
    let refused = append(&test.store, &id, before).await;
    assert!(matches!(refused, Err(StoreError::Gone)), "it is not known what was erased since: {refused:?}");
    append(&test.store, &id, epoch(&test, &id).await).await.unwrap();
    assert_eq!(test.names(), [id.as_str()]);
    let later = epoch(&test, &conversation("absent")).await;
    test.store.delete(&id).await.unwrap();
    assert!(later <= before && epoch(&test, &id).await > before, "epochs stay in order");
}

/// The clock of the server was ahead for a time.
async fn a_clock_that_is_ahead_does_not_keep_conversations_from_being_created() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let [_, _, _, epochs] = slot_keys(&id);
    test.run::<()>(&["HSET", &epochs, "clock", "4000000000000000"]);
    say(&test.store, &id, "one").await;
    test.store.delete(&id).await.unwrap();
    let since = epoch(&test, &id).await;
    assert!(since.get() > 4_000_000_000_000_000);
    test.store.append(&id, Append::new(Expect::Absent, exchange("two")).since(Some(since))).await.unwrap();
    assert_eq!(texts(&test.store, &id).await, ["two"]);
    test.store.delete(&id).await.unwrap();
    assert_eq!(test.names(), [] as [&str; 0]);
}

async fn a_deletion_concerns_no_longer_ids() {
    let test = TestServer::new().await;
    let id = conversation("a");
    // One of these is in the slot of the deleted conversation.
    for number in 0..200 {
        let longer: ConversationId = format!("{id}/{number}").parse().unwrap();
        if slot_keys(&longer) == slot_keys(&id) {
            let since = epoch(&test, &longer).await;
            test.store.delete(&id).await.unwrap();
            test.store.append(&longer, Append::new(Expect::Absent, exchange("x")).since(Some(since))).await.unwrap();
            return;
        }
    }
    panic!("no id is in the slot");
}
