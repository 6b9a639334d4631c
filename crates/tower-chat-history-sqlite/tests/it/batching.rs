//! Batching: many calls share few commits and do not disturb one another.

use std::time::{Duration, Instant};

use crate::support::{TestDatabase, append, conversation, enqueue, exchange, patient, say, texts, window};
use tower_chat_history_core::{Append, Expect, HistoryStore, Load, StoreError};
use tower_chat_history_sqlite::SqliteOptions;

/// While another process has the lock, calls gather in the queue.
const LOCK: &str = "BEGIN IMMEDIATE";
const UNLOCK: &str = "COMMIT";

#[tokio::test]
async fn queued_appends_are_committed_together() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let other = database.connect();
    other.execute_batch(LOCK).unwrap();
    let ids: Vec<_> = (0..100).map(|n| conversation(&format!("c{n}"))).collect();
    let calls: Vec<_> = ids.iter().map(|id| enqueue(store.append(id, append("x")))).collect();
    other.execute_batch(UNLOCK).unwrap();
    for call in calls {
        call.await.unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.writes, 100);
    assert!(stats.transactions <= 2, "one for the first call, one for those queued during it: {stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_commits() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let id = conversation(&format!("c{n}"));
                for _ in 0..10 {
                    say(&store, &id, "x").await;
                }
                assert_eq!(window(&store, &id).await.exchanges.len(), 10);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.writes, 640);
    assert!(stats.transactions < stats.writes, "{stats:?}");
}

#[tokio::test]
async fn a_refused_append_leaves_the_rest_of_its_batch_stored() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    let revision = say(&store, &id, "0").await.revision;
    let other = database.connect();
    other.execute_batch(LOCK).unwrap();
    let expecting = |expect, text| Append::new(expect, exchange(text));
    let calls = [
        enqueue(store.append(&id, expecting(Expect::Exactly(revision), "1"))),
        enqueue(store.append(&id, expecting(Expect::Exactly(revision), "lost the race"))),
        enqueue(store.append(&id, expecting(Expect::Absent, "not absent"))),
        enqueue(store.append(&id, expecting(Expect::AnyIn(revision.incarnation()), "2"))),
    ];
    other.execute_batch(UNLOCK).unwrap();
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await);
    }
    assert!(results[0].is_ok() && results[3].is_ok(), "{results:?}");
    assert!(matches!(results[1], Err(StoreError::Conflict { .. })), "{results:?}");
    assert!(matches!(results[2], Err(StoreError::Conflict { .. })), "{results:?}");
    assert_eq!(texts(&window(&store, &id).await), ["0", "1", "2"]);
}

#[tokio::test]
async fn an_append_dropped_before_its_turn_is_not_stored() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    let other = database.connect();
    other.execute_batch(LOCK).unwrap();
    let (first, second, third) = (
        enqueue(store.append(&id, append("first"))),
        enqueue(store.append(&id, append("second"))),
        enqueue(store.append(&id, append("third"))),
    );
    drop(first);
    drop(third);
    other.execute_batch(UNLOCK).unwrap();
    second.await.unwrap();
    say(&store, &id, "fourth").await;
    assert_eq!(texts(&window(&store, &id).await), ["second", "fourth"]);
    assert_eq!(store.stats().skipped, 2);
}

#[tokio::test]
async fn reads_go_on_while_a_write_waits() {
    let database = TestDatabase::new();
    let store = patient().readers(1).open(&database.path).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "x").await;
    let other = database.connect();
    other.execute_batch(LOCK).unwrap();
    let write = enqueue(store.append(&id, append("y")));
    assert_eq!(texts(&window(&store, &id).await), ["x"]);
    other.execute_batch(UNLOCK).unwrap();
    write.await.unwrap();
    assert_eq!(texts(&window(&store, &id).await), ["x", "y"], "the next read sees an acknowledged write");
}

#[tokio::test]
async fn a_dropped_read_is_skipped() {
    let database = TestDatabase::new();
    let store = SqliteOptions::new().readers(1).open(&database.path).await.unwrap();
    let id = conversation("a");
    let calls: Vec<_> = (0..100).map(|_| enqueue(store.load(&id, Load::new()))).collect();
    drop(calls);
    assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
    let stats = store.stats();
    assert_eq!(stats.reads + stats.skipped, 101, "{stats:?}");
}

#[tokio::test]
async fn queued_calls_wait_for_a_lock_together() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let database = TestDatabase::new();
    let store = SqliteOptions::new().busy_timeout(TIMEOUT).open(&database.path).await.unwrap();
    let id = conversation("a");
    let other = database.connect();
    other.execute_batch(LOCK).unwrap();
    let began = Instant::now();
    // A hundred batches: one after the other, they would wait for 50 seconds.
    let calls: Vec<_> = (0..25_600).map(|_| enqueue(store.append(&id, append("x")))).collect();
    let checkpoint = enqueue(store.checkpoint());
    for call in calls {
        assert!(call.await.unwrap_err().is_retryable());
    }
    assert!(checkpoint.await.unwrap_err().is_retryable());
    let waited = began.elapsed();
    assert!((TIMEOUT..Duration::from_secs(30)).contains(&waited), "{waited:?}");
    other.execute_batch(UNLOCK).unwrap();
    say(&store, &id, "y").await;
    assert_eq!(texts(&window(&store, &id).await), ["y"]);
}
