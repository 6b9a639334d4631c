//! Connections that are open but silent, nodes of a Cluster that hang, and lost answers.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use libtest_mimic::Trial;
use redis::{Connection, aio::ConnectionManagerConfig};
use test_servers::{cluster::Cluster, trials};
use tokio::time::timeout;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Epoch, Expect, HistoryStore, HistoryStoreExt, Load, Loaded, Prune, PruneTo, Seq,
    StoreError, Truncate, Truncated,
};
use tower_chat_history_redis::{OpenError, RedisStore};

use crate::{
    proxy::Proxy,
    support::{
        PATIENCE, TestServer, append, command, conversation, exchange, key, open, patient, say, slot_keys, texts,
        window,
    },
};

const KILL: [&str; 6] = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_silent_connection_is_replaced,
        many_calls_on_a_silent_connection_share_a_new_one,
        no_call_waits_for_a_connection_longer_than_its_time,
        connecting_ends_in_time,
        opening_a_store_ends_in_time_when_the_server_falls_silent,
        a_refused_password_is_tried_again,
        a_truncation_to_nothing_reports_its_result,
        a_repeated_append_does_not_begin_a_deleted_conversation,
        a_repeated_deletion_spares_another_incarnation,
        a_prune_reports_how_much_it_removed,
        a_node_that_hangs_is_left_after_another_one_took_its_place,
    ]
}

/// Creates a server with a proxy in front of it, and a store that waits half a second for answers.
async fn setup(retry_for: Duration) -> (TestServer, Proxy, RedisStore) {
    let test = TestServer::new().await;
    let proxy = Proxy::start(&test.server).await;
    let options = patient().response_timeout(Duration::from_millis(500)).retry_for(retry_for);
    let store = open(async || options.clone().connect(proxy.url()).await).await;
    (test, proxy, store)
}

async fn a_silent_connection_is_replaced() {
    let (_test, proxy, store) = setup(PATIENCE).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    for n in 1..3 {
        proxy.silence();
        let appended = say(&store, &id, "next").await;
        assert_eq!((appended.seq, appended.duplicate), (Seq::new(n), false));
        assert!(proxy.connections() > n, "each silent connection is replaced");
    }
}

async fn many_calls_on_a_silent_connection_share_a_new_one() {
    let (_test, proxy, store) = setup(PATIENCE).await;
    let ids: Vec<_> = (0..40).map(|n| conversation(&n.to_string())).collect();
    say(&store, &ids[0], "one").await;
    proxy.silence();
    let calls: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { store.load(&id, Load::new()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // On a busy machine, a new connection may be replaced too, but not for every call.
    assert!((2..20).contains(&proxy.connections()), "{} connections", proxy.connections());
}

async fn no_call_waits_for_a_connection_longer_than_its_time() {
    let (mut test, proxy, store) = setup(Duration::from_millis(200)).await;
    let id = conversation("a");
    // The connection ends, and the next one is accepted but never answered.
    proxy.silence_all();
    test.run::<u64>(&KILL);
    for _ in 0..3 {
        let began = Instant::now();
        let error = store.append(&id, append("two")).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    }
}

async fn connecting_ends_in_time() {
    let test = TestServer::new().await;
    let proxy = Proxy::start(&test.server).await;
    proxy.silence_all();
    let options = patient().connection_timeout(Duration::from_millis(200)).retry_for(Duration::ZERO);
    assert!(matches!(options.connect(proxy.url()).await, Err(OpenError::Connect { .. })));
    assert!(proxy.connections() <= 2, "{} attempts", proxy.connections());
}

/// The server accepts the connection, but never answers whether it evicts.
async fn opening_a_store_ends_in_time_when_the_server_falls_silent() {
    let test = TestServer::new().await;
    let options = patient().connection_timeout(Duration::from_millis(200)).retry_for(Duration::ZERO);
    let options = options.response_timeout(2 * PATIENCE);
    let unlimited = ConnectionManagerConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let proxy = Proxy::start(&test.server).await;
    let client = redis::Client::open(proxy.url()).unwrap();
    let given = client.get_connection_manager_with_config(unlimited).await.unwrap();
    proxy.silence_from("memory");
    let opened = timeout(PATIENCE, options.clone().over(given)).await.unwrap();
    assert!(matches!(opened, Err(OpenError::Connect { .. })));
    let proxy = Proxy::start(&test.server).await;
    proxy.silence_from("memory");
    let opened = timeout(PATIENCE, options.connect(proxy.url())).await.unwrap();
    assert!(matches!(opened, Err(OpenError::Connect { .. })));
}

async fn a_refused_password_is_tried_again() {
    let mut test = TestServer::new().await;
    test.run::<()>(&["CONFIG", "SET", "requirepass", "one"]);
    let url = format!("{}?pass=one", test.server.url().replace("unix:", "redis+unix:"));
    let store = patient().connect(url).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    test.run::<()>(&["CONFIG", "SET", "requirepass", "two"]);
    test.run::<u64>(&KILL);
    let error = store.append(&id, append("two")).await.unwrap_err();
    let StoreError::Backend { source } = &error else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "the server refused the name or the password of the user");
    test.run::<()>(&["CONFIG", "SET", "requirepass", "one"]);
    let began = Instant::now();
    while let Err(error) = store.append(&id, append("two")).await {
        assert!(began.elapsed() < PATIENCE, "{error:?}");
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_truncation_to_nothing_reports_its_result() {
    let (test, proxy, store) = setup(PATIENCE).await;
    let id = conversation("a");
    for text in ["one", "two", "three"] {
        say(&store, &id, text).await;
    }
    let revision = window(&store, &id).await.revision;
    proxy.lose("emptied");
    let truncated = store.truncate(&id, revision, Seq::FIRST, None).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(truncated, Truncated::new(None, 3));
    // A deletion by another program is reported as such.
    let gone = test.store.truncate(&id, revision, Seq::FIRST, None).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
}

/// A delayed first append arrives after the deletion.
async fn a_repeated_append_does_not_begin_a_deleted_conversation() {
    let (mut test, proxy, store) = setup(PATIENCE).await;
    let id = conversation("a");
    for expect in [Expect::AnyOrCreate, Expect::Absent] {
        for names_epoch in [false, true] {
            let since = if names_epoch { Some(epoch(&test.store, &id).await) } else { None };
            proxy.forget_requests();
            store.append(&id, Append::new(expect, exchange("one")).since(since)).await.unwrap();
            test.store.delete(&id).await.unwrap();
            proxy.repeat(&test.server).await;
            assert_eq!(test.conversation_keys(), 0, "{expect:?} {since:?}");
        }
    }
}

async fn epoch(store: &RedisStore, id: &ConversationId) -> Epoch {
    let Loaded::Absent(epoch) = store.load(id, Load::new()).await.unwrap() else { panic!("it exists") };
    epoch
}

/// A delayed deletion arrives after the conversation's next incarnation was acknowledged.
async fn a_repeated_deletion_spares_another_incarnation() {
    let (mut test, proxy, store) = setup(PATIENCE).await;
    let id = conversation("a");
    // At last, there is nothing to delete.
    for life in [Some("one"), Some("two"), None] {
        if let Some(text) = life {
            say(&store, &id, text).await;
        }
        proxy.forget_requests();
        store.delete(&id).await.unwrap();
        assert_eq!(say(&test.store, &id, "next").await.seq, Seq::FIRST);
        proxy.repeat(&test.server).await;
        assert_eq!(texts(&test.store, &id).await, ["next"]);
        assert_eq!(test.names(), [id.as_str()]);
        test.store.delete(&id).await.unwrap();
    }
}

async fn a_prune_reports_how_much_it_removed() {
    let (_test, proxy, store) = setup(PATIENCE).await;
    let id = conversation("a");
    for n in 0..9 {
        say(&store, &id, &n.to_string()).await;
    }
    for (derived, keep, removed) in [(Derived::Keep, 7, 2), (Derived::Erase, 4, 3), (Derived::Keep, 4, 0)] {
        let incarnation = window(&store, &id).await.revision.incarnation();
        proxy.lose("pruned");
        let pruned = store.prune(&id, incarnation, PruneTo::LastTurns(keep), derived).await.unwrap();
        assert!(proxy.has_lost());
        assert_eq!(pruned.removed, removed);
        assert_eq!(pruned.revision, window(&store, &id).await.revision);
    }
    assert_eq!(store.conversation(&id).keep_last_turns(1).await.unwrap(), 3);
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
