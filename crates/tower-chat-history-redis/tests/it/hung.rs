//! Nodes of a Cluster that hang: their operating system answers, but they do not.

use std::time::Duration;

use futures_util::future::join_all;
use libtest_mimic::Trial;
use redis::Connection;
use test_servers::{cluster::Cluster, trials};
use tokio::time::timeout;
use tower_chat_history_core::{ConversationId, Epoch, HistoryStore, Load, Loaded};

use crate::support::{command, conversation, key, open, patient, say, slot_keys, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![a_node_that_hangs_is_left_after_another_one_took_its_place]
}

/// The number of slots of the first node of a cluster of three.
const SLOTS: u16 = 16_384 / 3;

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
    let options = patient().response_timeout(limit).connection_timeout(limit);
    let store = open(async || options.clone().connect_cluster(cluster.urls()).await).await;
    say(&store, &id, "one").await;
    assert_eq!(texts(&store, &id).await, ["one"]);

    let slot = slot(&mut nodes[0], &key(&id, "")).to_string();
    cluster.hang(0);
    assert!(timeout(4 * limit, store.load(&id, Load::new())).await.is_err(), "no other node has the slot");
    // The second node takes the place of the first one, with an empty database.
    let name: String = command(&["CLUSTER", "MYID"]).query(&mut nodes[1]).unwrap();
    for node in &mut nodes[1..] {
        command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).query::<()>(node).unwrap();
        command(&["CLUSTER", "SETSLOT", &slot, "NODE", &name]).query::<()>(node).unwrap();
    }
    // A call that times out makes a new connection, which other calls use.
    let loads = join_all((0..20).map(|_| store.load(&id, Load::new()))).await;
    assert!(loads.iter().all(|load| matches!(load, Ok(Loaded::Absent(Epoch::FIRST)))), "{loads:?}");
}
