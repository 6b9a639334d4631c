//! Nodes of a Cluster that hang: their operating system answers, but they do not.

use std::{
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use libtest_mimic::Trial;
use redis::Connection;
use test_servers::{cluster::Cluster, trials};
use tower_chat_history_core::{ConversationId, Epoch, HistoryStore, Load, Loaded, StoreError};
use tower_chat_history_redis::RedisOptions;

use crate::support::{command, conversation, key, say, slot_keys, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![a_node_that_hangs_is_left_after_another_one_took_its_place]
}

/// The number of slots of the first node of a cluster of three.
const SLOTS: u16 = 16_384 / 3;
/// The time for which the node hangs. It is longer than the calls of the test take.
const HANGS_FOR: &str = "60";
const PATIENCE: Duration = Duration::from_secs(30);

fn slot(node: &mut Connection, key: &str) -> u16 {
    command(&["CLUSTER", "KEYSLOT", key]).query(node).unwrap()
}

/// Returns a conversation of the first node, whose slot of the registry is on another node.
fn of_first_node(node: &mut Connection) -> ConversationId {
    let mut ids = (0..).map(|number| conversation(&format!("hung-{number}")));
    ids.find(|id| slot(node, &key(id, "")) < SLOTS && slot(node, &slot_keys(id)[0]) >= SLOTS).unwrap()
}

async fn a_node_that_hangs_is_left_after_another_one_took_its_place() {
    let cluster = Cluster::start();
    let mut nodes = cluster.connections();
    let id = of_first_node(&mut nodes[0]);
    let limit = Duration::from_millis(300);
    let options = RedisOptions::new().response_timeout(limit).connection_timeout(limit).retry_for(4 * limit);
    let store = options.connect_cluster(cluster.urls()).await.unwrap();
    say(&store, &id, "one").await;
    assert_eq!(texts(&store, &id).await, ["one"]);

    let slot = slot(&mut nodes[0], &key(&id, "")).to_string();
    let [mut first, mut second, mut third] = <[Connection; 3]>::try_from(nodes).ok().unwrap();
    // This thread waits for the node until the cluster is dropped.
    thread::spawn(move || command(&["DEBUG", "SLEEP", HANGS_FOR]).query::<()>(&mut first));
    let began = Instant::now();
    while !matches!(store.load(&id, Load::new()).await, Err(StoreError::Unavailable { .. })) {
        assert!(began.elapsed() < PATIENCE, "the node does not hang");
    }
    // The second node takes the place of the first one, with an empty database.
    let name: String = command(&["CLUSTER", "MYID"]).query(&mut second).unwrap();
    for node in [&mut second, &mut third] {
        command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).query::<()>(node).unwrap();
        command(&["CLUSTER", "SETSLOT", &slot, "NODE", &name]).query::<()>(node).unwrap();
    }
    // A call that times out makes a new connection, which other calls use.
    let mut last = Vec::new();
    for _ in 0..3 {
        last = join_all((0..20).map(|_| store.load(&id, Load::new()))).await;
    }
    assert!(last.iter().all(|load| matches!(load, Ok(Loaded::Absent(Epoch::FIRST)))), "{last:?}");
}
