//! Connections and servers that fail.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use libtest_mimic::Trial;
use redis::aio::ConnectionManagerConfig;
use test_servers::{redis::Server, trials};
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, Expect, HistoryStore, HistoryStoreExt, Load, Profile, Seq,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{TestServer, append, compact, conversation, exchange, key, open, patient, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_cut_connection_is_replaced,
        calls_in_flight_are_settled_when_their_connection_is_cut,
        a_lost_answer_makes_no_duplicate,
        acknowledged_appends_survive_a_crash,
        a_missing_server_is_a_retryable_error,
        a_demoted_master_is_not_used,
        a_master_without_enough_replicas_is_not_read,
        a_connection_can_be_given,
    ]
}

const KILL: [&str; 6] = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];

async fn a_cut_connection_is_replaced() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for n in 0..20 {
        assert_eq!(test.run::<u64>(&KILL), 1);
        let appended = say(&test.store, &id, "x").await;
        assert_eq!((appended.seq, appended.duplicate), (Seq::new(n), false));
        assert_eq!(test.run::<u64>(&KILL), 1);
        test.store.load(&id, Load::new()).await.unwrap();
    }
}

async fn calls_in_flight_are_settled_when_their_connection_is_cut() {
    let mut test = TestServer::new().await;
    let store = test.store.clone();
    let id = conversation("a");
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            let id = id.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    assert!(!say(&store, &id, "x").await.duplicate);
                }
            })
        })
        .collect();
    let log = key(&id, ":log");
    let mut stored = 0;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        // Cut only after something was stored, or no writer would ever finish.
        let now = test.run::<u64>(&["LLEN", &log]);
        if now > stored {
            stored = now;
            test.run::<u64>(&KILL);
        }
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 8 * 50 * 2);
}

/// The server holds writes for longer than the store waits, and then executes all of them.
async fn a_lost_answer_makes_no_duplicate() {
    let mut test = TestServer::new().await;
    let options = patient().response_timeout(Duration::from_millis(50));
    let store = open(async || options.clone().connect(test.server.url()).await).await;
    let id = conversation("a");
    let first = say(&store, &id, "one").await;
    let [compact_a, compact_b] = ["a", "b"].map(|profile| {
        let mut compact = compact(CompactionVersion::NONE, 1, None);
        compact.profile = Profile::new(profile).unwrap();
        compact
    });

    test.run::<()>(&["CLIENT", "PAUSE", "300", "WRITE"]);
    let append = Append::new(Expect::Exactly(first.revision), exchange("two"));
    let appended = store.append(&id, append.compact(compact_a)).await.unwrap();
    assert_eq!((appended.seq, appended.duplicate), (Seq::new(1), false));
    assert!(matches!(appended.compaction, Some(CompactOutcome::Stored(_))), "{appended:?}");

    test.run::<()>(&["CLIENT", "PAUSE", "300", "WRITE"]);
    let incarnation = first.revision.incarnation();
    let stored = store.compact(&id, incarnation, compact_b).await.unwrap();
    assert!(matches!(stored, CompactOutcome::Stored(_)), "{stored:?}");

    say(&store, &id, "three").await;
    test.run::<()>(&["CLIENT", "PAUSE", "300", "WRITE"]);
    let truncated = store.conversation(&id).truncate(Seq::new(2)).await.unwrap();
    assert_eq!(truncated.removed, 1);
    assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 4);
}

async fn acknowledged_appends_survive_a_crash() {
    let mut test = TestServer::on(Server::durable()).await;
    let id = conversation("a");
    let stop = Arc::new(AtomicBool::new(false));
    let count = Arc::new(AtomicUsize::new(0));

    let store = test.store.clone();
    let writes_to = id.clone();
    let stopped = Arc::clone(&stop);
    let counted = Arc::clone(&count);
    let writer = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        while !stopped.load(Relaxed) {
            let append = append(&acknowledged.len().to_string());
            let exchange = append.exchange.id.clone();
            // The server may be down for longer than the store retries.
            let appended = loop {
                match store.append(&writes_to, append.clone()).await {
                    Ok(appended) => break appended,
                    Err(error) => assert!(error.is_retryable(), "{error:?}"),
                }
            };
            acknowledged.push((appended.seq, exchange));
            counted.fetch_add(1, Relaxed);
        }
        acknowledged
    });

    for _ in 0..3 {
        some_more(&count).await;
        test.crash_and_restart();
    }
    some_more(&count).await;
    stop.store(true, Relaxed);
    let acknowledged = writer.await.unwrap();

    let mut log = Vec::new();
    loop {
        let page = test.store.read(&id, Seq::new(log.len() as u64), 1_000).await.unwrap();
        log.extend(page.exchanges.into_iter().map(|recorded| (recorded.seq, recorded.exchange.id.clone())));
        if !page.more {
            break;
        }
    }
    assert_eq!(log, acknowledged, "each is stored once, at its acknowledged position");
}

/// Waits for another twenty acknowledged appends.
async fn some_more(count: &AtomicUsize) {
    let enough = count.load(Relaxed) + 20;
    while count.load(Relaxed) < enough {
        tokio::task::yield_now().await;
    }
}

async fn a_missing_server_is_a_retryable_error() {
    let mut test = TestServer::new().await;
    let options = patient().retry_for(Duration::from_millis(100));
    let store = options.connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    test.server.crash();
    for error in [
        store.load(&id, Load::new()).await.unwrap_err(),
        store.append(&id, append("secret")).await.unwrap_err(),
        store.delete(&id).await.unwrap_err(),
    ] {
        assert!(error.is_retryable() && !format!("{error:?}").contains("secret"), "{error:?}");
    }
    let refused = RedisStore::connect(test.server.url()).await.unwrap_err();
    assert!(std::error::Error::source(&refused).is_some(), "{refused:?}");
}

/// A load is not served either: the data of a former master may be old.
async fn a_demoted_master_is_not_used() {
    let mut test = TestServer::new().await;
    let store = test.store.clone();
    let id = conversation("a");
    say(&store, &id, "one").await;
    let calls: [fn(RedisStore) -> Pin<Box<dyn Future<Output = ()> + Send>>; 3] = [
        |store| Box::pin(async move { drop(say(&store, &conversation("a"), "two").await) }),
        |store| Box::pin(async move { assert_eq!(texts(&store, &conversation("a")).await, ["one", "two"]) }),
        |store| Box::pin(async move { drop(store.read(&conversation("a"), Seq::FIRST, 9).await.unwrap()) }),
    ];
    for call in calls {
        test.run::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
        let before = test.accepted();
        let call = tokio::spawn(call(store.clone()));
        // The store connects again, to find another server at the address.
        while test.accepted() == before {
            assert!(!call.is_finished());
            tokio::task::yield_now().await;
        }
        test.run::<()>(&["REPLICAOF", "NO", "ONE"]);
        call.await.unwrap();
    }
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_master_without_enough_replicas_is_not_read() {
    let mut test = TestServer::new().await;
    let store = patient().retry_for(Duration::ZERO).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    test.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    for error in [
        store.load(&id, Load::new()).await.unwrap_err(),
        store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        store.append(&id, append("two")).await.unwrap_err(),
    ] {
        assert!(error.is_retryable(), "{error:?}");
    }
    test.run::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(texts(&store, &id).await, ["one"]);
}

async fn a_connection_can_be_given() {
    let test = TestServer::new().await;
    let unlimited = ConnectionManagerConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let client = redis::Client::open(test.server.url()).unwrap();
    let manager = client.get_connection_manager_with_config(unlimited).await.unwrap();
    let store = patient().over(manager).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    assert_eq!(say(&test.store, &id, "two").await.seq, Seq::new(1));
}
