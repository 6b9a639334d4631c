//! The rights that a user needs, and slots that move between nodes.

use std::time::Duration;

use libtest_mimic::Trial;
use redis::Connection;
use test_servers::trials;
use tower_chat_history_core::{
    Compact, CompactionVersion, ConversationId, Cut, Derived, HistoryStore, HistoryStoreExt, Load, Loaded, Profile,
    PruneTo, Seq, StoreError,
};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

use crate::support::{TestServer, append, cluster, command, conversation, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        the_documented_rights_are_enough,
        the_documented_rights_are_enough_for_a_cluster,
        a_call_waits_for_a_slot_that_moves,
    ]
}

/// The documentation of the crate lists these rights.
const RIGHTS: &str = "+evalsha +eval +unlink +exists +hget +hgetall +hkeys +hlen +hmget +hset +hdel +lindex +llen \
                      +lrange +ltrim +rpush +persist +pexpireat +time";
/// The additional rights for a cluster.
const CLUSTER_RIGHTS: &str = "+cluster|slots +ping +asking";

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
    let refused = RedisOptions::new().require_noeviction(true).connect(&url).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "unknown"), "{refused}");
    let expiring = RedisOptions::new().expire_after(Duration::from_secs(60)).connect(&url).await.unwrap();
    let store = RedisStore::connect(&url).await.unwrap();
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
    let urls = || cluster().urls().into_iter().map(|url| url.replace("//", "//few:pass@"));
    let expiring = RedisOptions::new().expire_after(Duration::from_secs(60)).connect_cluster(urls()).await.unwrap();
    let store = RedisStore::connect_cluster(urls()).await.unwrap();
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
    let cut = Cut::window_from(Seq::new(1));
    let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
    store.compact(id, last.revision.incarnation(), compact).await.unwrap();
    assert_eq!(texts(store, id).await, ["one", "two", "three", "four"]);
    store.conversation(id).truncate(Seq::new(4)).await.unwrap();
    store.conversation(id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert_eq!(store.conversation(id).messages().await.unwrap().len(), 2);
    store.delete(id).await.unwrap();
    assert_eq!(store.load(id, Load::new()).await.unwrap(), Loaded::Absent);
}

/// A slot moves from one node to another. A user with few rights is redirected as well.
async fn a_call_waits_for_a_slot_that_moves() {
    let mut nodes = cluster().connections();
    for node in &mut nodes {
        command(&user("mover", &[RIGHTS, CLUSTER_RIGHTS])).query::<()>(node).unwrap();
    }
    let urls = cluster().urls().into_iter().map(|url| url.replace("//", "//mover:pass@"));
    let store = RedisOptions::new().retry_for(Duration::from_secs(60)).connect_cluster(urls).await.unwrap();
    let id = conversation("moving");
    let names: Vec<String> = nodes.iter_mut().map(|node| ask(node, &["CLUSTER", "MYID"])).collect();
    let slot: u64 = ask(&mut nodes[0], &["CLUSTER", "KEYSLOT", id.as_str()]);
    let slot = slot.to_string();
    let (from, to) = {
        let moved = |node: &mut Connection| command(&["EXISTS", &format!("{{{id}}}")]).query::<u64>(node).is_err();
        let owner = nodes.iter_mut().position(|node| !moved(node)).unwrap();
        (owner, (owner + 1) % nodes.len())
    };
    ask::<()>(&mut nodes[to], &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &names[from]]);
    ask::<()>(&mut nodes[from], &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &names[to]]);
    // Neither node has a key of the conversation, so neither can know whether the other one will have it.
    let call = tokio::spawn({
        let (store, id) = (store.clone(), id.clone());
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
