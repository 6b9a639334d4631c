//! The rights that a user needs, and slots that move between nodes.

use std::{error::Error, time::Duration};

use libtest_mimic::Trial;
use redis::Connection;
use test_servers::trials;
use tower_chat_history_conformance::shorthand::log_texts;
use tower_chat_history_core::{
    Append, Citation, CompactionVersion, ConversationId, Derived, Erase, Expect, Fork, ForkTo, HistoryStore,
    HistoryStoreExt, ImportError, Incarnation, Labels, LabelsVersion, List, Load, Message, Prefix, Prune, PruneTo,
    Recalled, Revision, Seq, StoreError, Truncate,
};
use tower_chat_history_redis::{OpenError, RedisStore};

use crate::support::{
    BEGINNING, ERASED, TestServer, UNSWEPT_END, append, cluster, command, compact, conversation, exchange, made_by,
    make, patient, providers, recall, recalled_texts, say, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        the_documented_rights_are_enough,
        the_documented_rights_are_enough_for_a_cluster,
        a_missing_right_leaves_the_conversation_as_it_was,
        a_call_waits_for_a_slot_that_moves,
    ]
}

/// The documentation of the crate lists these rights.
const RIGHTS: &str = "+evalsha +eval +get +set +copy +unlink +exists +hget +hkeys +hlen +hmget +hset +hdel +lindex \
                      +llen +lrange +lset +ltrim +rpush +persist +pexpireat +time +zadd +zcard +zcount \
                      +zmscore +zpopmin +zrange +zrem";
/// The additional rights for a cluster.
const CLUSTER_RIGHTS: &str = "+cluster|slots +ping +asking +rename";

/// Returns the command that creates a user with these rights.
fn user<'a>(name: &'a str, rights: &[&'a str]) -> Vec<&'a str> {
    let mut command = vec!["ACL", "SETUSER", name, "on", ">pass", "~chat:*"];
    command.extend(rights.iter().flat_map(|rights| rights.split_whitespace()));
    command
}

async fn the_documented_rights_are_enough() {
    let mut test = TestServer::new().await;
    test.run::<()>(&user("app", &[RIGHTS]));
    let url = format!("{}?user=app&pass=pass", test.server.url().replace("unix:", "redis+unix:"));
    let refused = patient().require_noeviction(true).connect(&url).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "unknown"), "{refused}");
    let expiring = patient().expire_after(Duration::from_secs(60)).connect(&url).await.unwrap();
    let store = patient().connect(&url).await.unwrap();
    let id = conversation("a");
    every_call(&expiring, &store, &id).await;
    say(&store, &id, "one").await;
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = store.append(&id, append("x")).await.unwrap_err();
    assert!(matches!(full, StoreError::Full { limit: 0, .. }), "the user may not read the limit: {full:?}");
}

async fn the_documented_rights_are_enough_for_a_cluster() {
    for node in &mut cluster().connections() {
        command(&user("few", &[RIGHTS, CLUSTER_RIGHTS])).query::<()>(node).unwrap();
    }
    let urls: Vec<_> = cluster().urls().into_iter().map(|url| url.replace("//", "//few:pass@")).collect();
    let expiring = patient().expire_after(Duration::from_secs(60)).connect_cluster(&urls).await.unwrap();
    let store = patient().connect_cluster(&urls).await.unwrap();
    // Most likely, each node gets at least one of these.
    for name in ["a", "b", "c", "d", "e", "f"] {
        every_call(&expiring, &store, &conversation(&format!("few {name}"))).await;
    }
}

/// Makes every call of the store, with everything that a script may do.
async fn every_call(expiring: &RedisStore, store: &RedisStore, id: &ConversationId) {
    say(expiring, id, "zero").await;
    let mut last = say(expiring, id, "one").await;
    for text in ["two", "three", "four"] {
        last = say(store, id, text).await;
    }
    store.compact(id, last.revision.incarnation(), compact(CompactionVersion::NONE, 1, None)).await.unwrap();
    assert_eq!(texts(store, id).await, ["one", "two", "three", "four"]);
    recall(expiring, id, "cites zero", &[0]).await;
    assert_eq!(recalled_texts(store, id).await[5], "cites zero");
    make(expiring, id, "p").await;
    assert_eq!(providers(store, id).await[6], "p");
    let copy = copy_of(id);
    for store in [expiring, store] {
        assert_eq!(store.conversation(id).fork(Seq::new(6), &copy).await.unwrap(), 6);
        assert_eq!(texts(store, &copy).await[4], "four");
        store.delete(&copy).await.unwrap();
    }
    store.conversation(id).truncate(Seq::new(4)).await.unwrap();
    make(store, id, "p").await;
    recall(store, id, "cites zero", &[0]).await;
    store.conversation(id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert_eq!(recalled_texts(store, id).await, [""]);
    assert_eq!(store.conversation(id).messages().await.unwrap().len(), 2);
    let revision = window(store, id).await.revision;
    let labels = Labels::new([("title", "t")]).unwrap();
    store.set_labels(id, revision.incarnation(), LabelsVersion::NONE, labels).await.unwrap();
    let under = Prefix::from(id);
    assert_eq!(store.list(&under, None, 9).await.unwrap().conversations.len(), 1);
    assert!(store.erase_if(id, revision).await.unwrap().is_some());
    for round in 0..2 {
        say(expiring, id, "again").await;
        if round == 0 {
            store.delete(id).await.unwrap();
        } else {
            store.bar(&under).await.unwrap();
            assert_eq!(store.erase(&under, None, 9).await.unwrap().removed.total().conversations, 1);
        }
        assert!(store.load(id, Load::new()).await.unwrap().is_absent());
        assert!(store.count(&under).await.unwrap().total().is_nothing());
    }
}

/// The commands that change keys.
const CHANGES: [&str; 13] = [
    "set",
    "copy",
    "unlink",
    "hset",
    "hdel",
    "lset",
    "ltrim",
    "rpush",
    "persist",
    "pexpireat",
    "zadd",
    "zpopmin",
    "zrem",
];

/// The calls that write. Each is made on a conversation of four turns in which the call writes as much as it can.
const WRITES: [&str; 22] = [
    "first append",
    "append",
    "append with a compaction",
    "append that begins an expiry",
    "append that ends an expiry",
    "append after an interrupted prune",
    "append after an interrupted erasure",
    "append with recalled messages",
    "append with a provenance",
    "compact",
    "prune",
    "prune and erase",
    "truncate",
    "truncate all",
    "delete",
    "erase",
    "erase if",
    "bar",
    "label",
    "import",
    "fork",
    "fork that begins an expiry",
];

/// The user lacks one command during one call. The call fails without an effect, unless it does not need the command.
async fn a_missing_right_leaves_the_conversation_as_it_was() {
    let mut test = TestServer::new().await;
    test.run::<()>(&user("app", &[RIGHTS]));
    let url = format!("{}?user=app&pass=pass", test.server.url().replace("unix:", "redis+unix:"));
    let store = patient().connect(&url).await.unwrap();
    let expiring = patient().expire_after(Duration::from_secs(60)).connect(&url).await.unwrap();
    for lacking in RIGHTS.split_whitespace().filter(|right| !right.starts_with("+eval")).map(|right| &right[1..]) {
        for (number, call) in WRITES.into_iter().enumerate() {
            let id = conversation(&format!("{lacking} {number}"));
            let what = format!("{call} without {lacking}");
            if call != "first append" {
                let store = if call.contains("an expiry") && !call.contains("begins") { &expiring } else { &store };
                for text in ["one", "two"] {
                    say(store, &id, text).await;
                }
                recall(store, &id, "cites one", &[0]).await;
                let mut exchange = made_by("p");
                exchange.recalled = Some(Recalled::new("cites two", vec![Citation::new(Seq::new(1), 0..1)]));
                store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
                let incarnation = window(store, &id).await.revision.incarnation();
                store.compact(&id, incarnation, compact(CompactionVersion::NONE, 1, None)).await.unwrap();
            }
            if call.ends_with("prune") && call.starts_with("append") {
                test.change_state(&id, &[(BEGINNING, 1)]);
            }
            if call.ends_with("erasure") {
                test.change_state(&id, &[(ERASED, 1), (UNSWEPT_END, 4)]);
            }

            let before = contents(&store, &id).await;
            let revision = store.read(&id, Seq::FIRST, 1).await.unwrap().revision;
            test.run::<()>(&["ACL", "SETUSER", "app", &format!("-{lacking}")]);
            let refused = write(&store, &expiring, &id, call, revision).await.err();
            test.run::<()>(&["ACL", "SETUSER", "app", &format!("+{lacking}")]);
            let after = contents(&store, &id).await;
            if let Some(refused) = refused {
                let source = refused.source().unwrap().to_string();
                // Redis 7.0 reports a refused read as ERR, later versions as NOPERM.
                assert!(source.ends_with("NOPERM") || !CHANGES.contains(&lacking), "{what}: {refused:?}");
                // The name is removed last. A repetition removes it.
                let is_deleted = after[0].is_empty() && ["delete", "erase", "erase if"].contains(&call);
                assert!(is_deleted || after == before, "{what}: {after:?}");
                assert!(store.load(&copy_of(&id), Load::new()).await.unwrap().is_absent(), "{what}");
            }

            say(&store, &id, "again").await;
            let [mut after, ..] = after;
            after.push("again".to_owned());
            assert_eq!(log_texts(&store, &id).await, after, "{what}");
            assert!(texts(&store, &id).await.ends_with(&["again".to_owned()]), "{what}");
        }
    }
}

/// Returns the texts of the log, the recalled messages and the providers.
async fn contents(store: &RedisStore, id: &ConversationId) -> [Vec<String>; 3] {
    [log_texts(store, id).await, recalled_texts(store, id).await, providers(store, id).await]
}

fn copy_of(id: &ConversationId) -> ConversationId {
    format!("{id}-copy").parse().unwrap()
}

async fn write(
    store: &RedisStore,
    expiring: &RedisStore,
    id: &ConversationId,
    call: &str,
    revision: Option<Revision>,
) -> Result<(), StoreError> {
    let compaction = compact(CompactionVersion::new(1), 2, None);
    let turns = PruneTo::LastTurns(2);
    let revision = revision.unwrap_or(Revision::new(Incarnation::random(), 0));
    let incarnation = revision.incarnation();

    match call {
        "append with a compaction" => store.append(id, append("more").compact(compaction)).await.map(drop),
        "append with recalled messages" => {
            let mut exchange = exchange("more");
            exchange.recalled = Some(Recalled::new("shown", Vec::new()));
            store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.map(drop)
        }
        "append with a provenance" => store.append(id, Append::new(Expect::AnyOrCreate, made_by("q"))).await.map(drop),
        "append that begins an expiry" => expiring.append(id, append("more")).await.map(drop),
        "compact" => store.compact(id, incarnation, compaction).await.map(drop),
        // Everything that a copy leaves out is removed from it.
        "fork" => store.fork(id, incarnation, ForkTo::new(copy_of(id), Seq::new(3))).await.map(drop),
        "fork that begins an expiry" => {
            expiring.fork(id, incarnation, ForkTo::new(copy_of(id), Seq::new(3))).await.map(drop)
        }
        "prune" => store.prune(id, incarnation, turns, Derived::Keep).await.map(drop),
        "prune and erase" => store.prune(id, incarnation, turns, Derived::Erase).await.map(drop),
        "truncate" => store.truncate(id, revision, Seq::new(3), None).await.map(drop),
        "truncate all" => store.truncate(id, revision, Seq::FIRST, None).await.map(drop),
        "delete" => store.delete(id).await,
        "erase" => store.erase(&Prefix::from(id), None, 9).await.map(drop),
        "erase if" => store.erase_if(id, revision).await.map(drop),
        "bar" => store.bar(&Prefix::from(id)).await,
        "label" => {
            let labels = Labels::new([("title", "t")]).unwrap();
            store.set_labels(id, incarnation, LabelsVersion::NONE, labels).await.map(drop)
        }
        "import" => match store.conversation(id).import([Message::user("q"), Message::assistant("a")]).await {
            Err(ImportError::Store { source, .. }) => Err(source),
            imported => {
                imported.unwrap();
                Ok(())
            }
        },
        _ => store.append(id, append("more")).await.map(drop),
    }
}

/// A slot moves from one node to another. A user with few rights is redirected as well.
async fn a_call_waits_for_a_slot_that_moves() {
    let mut nodes = cluster().connections();
    for node in &mut nodes {
        command(&user("mover", &[RIGHTS, CLUSTER_RIGHTS])).query::<()>(node).unwrap();
    }
    let urls = cluster().urls().into_iter().map(|url| url.replace("//", "//mover:pass@"));
    let store = patient().connect_cluster(urls).await.unwrap();
    let id = conversation("moving");
    let names: Vec<String> = nodes.iter_mut().map(|node| ask(node, &["CLUSTER", "MYID"])).collect();
    let slot: u64 = ask(&mut nodes[0], &["CLUSTER", "KEYSLOT", id.as_str()]);
    let slot = slot.to_string();

    let exists = command(&["EXISTS", &format!("{{{id}}}")]);
    let from = nodes.iter_mut().position(|node| exists.query::<u64>(node).is_ok()).unwrap();
    let to = (from + 1) % nodes.len();
    ask::<()>(&mut nodes[to], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &names[from]]);
    ask::<()>(&mut nodes[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &names[to]]);

    // Neither node has a key of the conversation, so neither can know whether the other one will have it.
    let call = tokio::spawn({
        let store = store.clone();
        let id = id.clone();
        async move { store.append(&id, append("one")).await }
    });
    while !has_answered(&mut nodes[to], "TRYAGAIN") {
        assert!(!call.is_finished());
        tokio::task::yield_now().await;
    }
    for node in [to, from] {
        ask::<()>(&mut nodes[node], &["CLUSTER", "SETSLOT", &slot, "STABLE"]);
    }
    assert_eq!(call.await.unwrap().unwrap().seq, Seq::FIRST);
    assert_eq!(texts(&store, &id).await, ["one"]);
}

fn ask<T: redis::FromRedisValue>(node: &mut Connection, words: &[&str]) -> T {
    command(words).query(node).unwrap()
}

/// Returns true if a node has answered any command with this error.
fn has_answered(node: &mut Connection, error: &str) -> bool {
    ask::<String>(node, &["INFO", "errorstats"]).contains(&format!("errorstat_{error}:"))
}
