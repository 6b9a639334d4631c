//! Time limits: slow calls end, whether the server or the network is slow.

use std::{pin::pin, time::Duration};

use futures_util::{FutureExt as _, future::join};
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::{
    runtime::{self, Runtime},
    task::yield_now,
    time::{self, Instant},
};
use tokio_postgres::Client;
use tower_chat_history_core::{
    CompactionVersion, Fork, ForkTo, HistoryStore, Labels, LabelsVersion, List, Load, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::{OpenError, PostgresError};

use crate::{
    proxy::Proxy,
    support::{
        append, compact, connect, conversation, database, patient, say, single, single_with, texts, waits_for_a_lock,
        window,
    },
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        the_wait_for_a_lock_is_limited,
        a_canceled_statement_is_not_retried,
        a_frozen_replica_locks_a_conversation_for_seconds_only,
        a_frozen_migration_blocks_other_replicas_for_seconds_only,
        a_full_pool_is_unavailable;
        blocking: a_call_to_a_silent_server_fails, opening_a_store_on_a_silent_server_fails, a_long_failure_is_reported_with_its_cause,
    ]
}

/// The time limit of a call, and of opening a store. Tests see up to a second more, because timers are
/// coarse.
const LIMIT: Duration = Duration::from_secs(60);

/// The longest time for which a test waits for a lock of another connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the SQLSTATE of a transient error.
pub(crate) fn state(error: &StoreError) -> &str {
    let StoreError::Unavailable { source } = error else { panic!("{error:?}") };
    let Some(PostgresError::Sql { code, .. }) = source.downcast_ref() else { panic!("{error:?}") };
    code.code()
}

async fn locks(client: &Client) {
    client.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
}

async fn the_wait_for_a_lock_is_limited() {
    let url = database().await;
    let proxy = Proxy::new();
    let (store, other) = (single(&proxy.url(&url)).await, connect(&url).await);
    let id = conversation("a");
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    let limited = "select count(*) from pg_proc where pronamespace = 'chat_history'::regnamespace \
                   and provolatile = 'v' and proname not in ('put_compaction_1', 'erased_1') and 'lock_timeout=10s' = any (proconfig)";
    assert_eq!(other.query_one(limited, &[]).await.unwrap().get::<_, i64>(0), 6);
    for (function, types) in [
        (
            "append_1",
            "int, text, int, uuid, bigint, bigint, bigint, uuid, text, bigint, bigint, bigint, bigint, bigint, text, \
             bigint, text, text, text, bigint, bigint, bytea, bytea",
        ),
        ("compact_1", "text, uuid, uuid, text, bigint, bigint, bytea, bytea"),
        ("delete_1", "text, uuid"),
        ("fork_1", "text, uuid, text, uuid, bigint, bigint, bigint, text, text, bigint, bytea, bytea"),
        ("set_labels_1", "text, uuid, bigint, uuid, text"),
    ] {
        let shorter = format!("alter function chat_history.{function}({types}) set lock_timeout = '20ms'");
        other.batch_execute(&shorter).await.unwrap();
    }
    // Prepare the statements of the calls below.
    store.compact(&id, incarnation, compact(CompactionVersion::NONE, 0)).await.unwrap();
    store.set_labels(&id, incarnation, LabelsVersion::NONE, Labels::default()).await.unwrap();
    store.fork(&id, incarnation, ForkTo::new(conversation("other"), Seq::new(1))).await.unwrap();
    store.delete(&conversation("other")).await.unwrap();
    locks(&other).await;
    proxy.trips();
    let fork = ForkTo::new(conversation("copy"), Seq::new(1));
    for error in [
        store.append(&id, append("two")).await.unwrap_err(),
        store.compact(&id, incarnation, compact(CompactionVersion::new(1), 0)).await.unwrap_err(),
        store.set_labels(&id, incarnation, LabelsVersion::new(1), Labels::default()).await.unwrap_err(),
        store.delete(&id).await.unwrap_err(),
        store.fork(&id, incarnation, fork).await.unwrap_err(),
    ] {
        assert_eq!(state(&error), "55P03");
    }
    assert_eq!(proxy.trips(), 6, "no call is retried, and the deletion is recorded first");
    assert_eq!(window(&store, &id).await.exchanges.len(), 1, "a load does not wait for the lock");
}

async fn a_canceled_statement_is_not_retried() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    locks(&other).await;
    let canceling = async {
        let session = waits_for_a_lock(&watcher, &[]).await;
        watcher.query("select pg_cancel_backend($1)", &[&session]).await.unwrap();
    };
    let (appended, ()) = join(store.append(&id, append("two")), canceling).await;
    assert_eq!(state(&appended.unwrap_err()), "57014");
    other.batch_execute("commit").await.unwrap();
    assert_eq!(texts(&store, &id).await, ["one"]);
}

async fn a_frozen_replica_locks_a_conversation_for_seconds_only() {
    let (url, proxy) = (database().await, Proxy::new());
    let (frozen, store) = (single(&proxy.url(&url)).await, single(&url).await);
    let id = conversation("a");
    let revision = say(&store, &id, "one").await.revision;
    // Prepare the statements of a truncation, so that its second request locks the row.
    let elsewhere = conversation("b");
    let other = say(&frozen, &elsewhere, "x").await.revision;
    frozen.truncate(&elsewhere, other, Seq::new(1), None).await.unwrap();
    let locked = "select 1 from chat_history.conversation where key = 'test/a' for update nowait";
    let watcher = connect(&url).await;
    proxy.freeze(2);
    let mut truncate = pin!(frozen.truncate(&id, revision, Seq::new(0), None));
    assert!((&mut truncate).now_or_never().is_none());
    // If this thread stalls until the server has released the lock, it never sees it.
    let began = Instant::now();
    while watcher.query(locked, &[]).await.is_ok() && began.elapsed() < PATIENCE {}
    say(&store, &id, "two").await;
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_frozen_migration_blocks_other_replicas_for_seconds_only() {
    let (url, proxy) = (database().await, Proxy::new());
    let watcher = connect(&url).await;
    // Seven answers: it connects, begins, reads twice, and ends. Then it begins again, and takes the lock.
    proxy.freeze(10);
    let behind = proxy.url(&url);
    let mut frozen = pin!(patient().connect(&behind));
    let locked = "select 1 from pg_locks where locktype = 'advisory' and granted \
                  and database = (select oid from pg_database where datname = current_database())";
    // If this thread stalls until the server has released the lock, it never sees it.
    let began = Instant::now();
    let locked = async { while watcher.query(locked, &[]).await.unwrap().is_empty() && began.elapsed() < PATIENCE {} };
    tokio::select! {
        opened = &mut frozen => assert!(opened.is_err(), "the answer is held"),
        () = locked => {}
    }
    // From here on it is not polled, so that its own time limit does not end it either.
    let store = single(&url).await;
    say(&store, &conversation("a"), "one").await;
}

async fn a_full_pool_is_unavailable() {
    let url = database().await;
    let store = single_with(&url, Duration::from_millis(500)).await;
    let _held = store.pool().get().await.unwrap();
    let error = store.load(&conversation("a"), Load::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

/// Returns a runtime of one thread. Its clock can be paused, and then jumps to the next timer.
pub(crate) fn one_thread() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn a_call_to_a_silent_server_fails() {
    one_thread().block_on(async {
        let (url, proxy) = (database().await, Proxy::new());
        let store = single(&proxy.url(&url)).await;
        let id = conversation("a");
        say(&store, &id, "one").await;
        window(&store, &id).await;
        proxy.freeze(1);
        proxy.trips();
        let began = Instant::now();
        let mut load = pin!(store.load(&id, Load::new()));
        assert!((&mut load).now_or_never().is_none());
        while proxy.trips() == 0 {
            yield_now().await;
        }
        time::pause();
        let paused = Instant::now();
        let error = load.await.unwrap_err();
        let StoreError::Unavailable { source } = &error else { panic!("{error:?}") };
        assert!(matches!(source.downcast_ref(), Some(PostgresError::NoAnswer)), "{error:?}");
        assert!(began.elapsed() >= LIMIT && paused.elapsed() <= LIMIT + Duration::from_secs(1));
        time::resume();
        proxy.freeze(0);
        assert_eq!(window(&store, &id).await.exchanges.len(), 1, "on another connection");
    });
}

fn opening_a_store_on_a_silent_server_fails() {
    one_thread().block_on(async {
        let (url, proxy) = (database().await, Proxy::new());
        let behind = proxy.url(&url);
        // The first answer accepts the connection.
        proxy.freeze(2);
        let began = Instant::now();
        let opening = tokio::spawn(async move { patient().connect(&behind).await });
        while proxy.trips() == 0 {
            yield_now().await;
        }
        time::pause();
        let paused = Instant::now();
        let error = opening.await.unwrap().unwrap_err();
        assert!(began.elapsed() >= LIMIT && paused.elapsed() <= LIMIT + Duration::from_secs(1));
        assert!(matches!(error, OpenError::Postgres { source: PostgresError::NoAnswer, .. }), "{error:?}");
        assert!(error.is_retryable());
    });
}

fn a_long_failure_is_reported_with_its_cause() {
    one_thread().block_on(async {
        let (url, proxy) = (database().await, Proxy::new());
        let options = patient().connections(1).retry_for(Duration::from_secs(3600));
        let store = options.connect(&proxy.url(&url)).await.unwrap();
        // From here on, no server listens at the address.
        drop(proxy);
        drop(store.pool().retain(|_, _| false));
        time::pause();
        let began = Instant::now();
        let error = store.load(&conversation("a"), Load::new()).await.unwrap_err();
        let StoreError::Unavailable { source } = &error else { panic!("{error:?}") };
        assert!(matches!(source.downcast_ref(), Some(PostgresError::Connection { .. })), "{error:?}");
        assert!(began.elapsed() > Duration::from_secs(30), "it was retried for a long time");
    });
}
