//! Calls whose callers leave, wait or stop polling: they take no connection from others.

use std::pin::pin;

use futures_util::FutureExt as _;
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::{runtime, task::yield_now};
use tower_chat_history_core::{HistoryStore, Load, StoreError};

use crate::support::{append, connect, conversation, database, patient, say, single, texts, waits_for_a_lock, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_call_that_is_not_polled_holds_no_connection,
        a_dropped_call_finishes_on_its_connection,
        a_call_dropped_while_it_waits_for_a_connection_is_not_made,
        a_call_that_waits_for_a_lock_can_be_dropped;
        blocking: a_call_without_a_runtime_is_an_error,
    ]
}

async fn a_call_that_is_not_polled_holds_no_connection() {
    let url = database().await;
    let (store, admin, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    admin.batch_execute("begin; lock table chat_history.conversation in access exclusive mode").await.unwrap();
    let mut parked = pin!(store.load(&id, Load::new()));
    tokio::select! {
        loaded = &mut parked => panic!("the table is locked: {loaded:?}"),
        _ = waits_for_a_lock(&watcher, &[]) => {}
    }
    let mut saved = pin!(store.append(&id, append("two")));
    assert!((&mut saved).now_or_never().is_none(), "the load has the only connection");
    admin.batch_execute("commit").await.unwrap();
    // From here on neither is polled. (Tasks may get the connection in another order than they requested it.)
    window(&store, &id).await;
    parked.await.unwrap();
    assert!(!saved.await.unwrap().duplicate);
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_dropped_call_finishes_on_its_connection() {
    let url = database().await;
    let (store, admin, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    let session = "select pg_backend_pid()";
    let before: i32 = store.pool().get().await.unwrap().query_one(session, &[]).await.unwrap().get(0);
    admin.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
    {
        let mut left = pin!(store.append(&id, append("left")));
        assert!((&mut left).now_or_never().is_none());
        waits_for_a_lock(&watcher, &[]).await;
    }
    admin.batch_execute("commit").await.unwrap();
    assert_eq!(texts(&store, &id).await, ["one", "left"]);
    let after: i32 = store.pool().get().await.unwrap().query_one(session, &[]).await.unwrap().get(0);
    assert_eq!(before, after);
}

async fn a_call_dropped_while_it_waits_for_a_connection_is_not_made() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let held = store.pool().get().await.unwrap();
    {
        let mut left = pin!(store.append(&id, append("left")));
        assert!((&mut left).now_or_never().is_none());
        while store.pool().status().waiting == 0 {
            yield_now().await;
        }
    }
    drop(held);
    say(&store, &id, "made").await;
    assert_eq!(texts(&store, &id).await, ["made"]);
}

async fn a_call_that_waits_for_a_lock_can_be_dropped() {
    let url = database().await;
    let options = patient().connections(2);
    let (store, admin) = (options.connect(&url).await.unwrap(), connect(&url).await);
    let (id, other) = (conversation("a"), conversation("b"));
    say(&store, &id, "one").await;
    admin.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
    let (left, watcher) = (append("left"), connect(&url).await);
    {
        let mut appending = store.append(&id, left.clone());
        tokio::select! {
            appended = &mut appending => panic!("the row is locked: {appended:?}"),
            _ = waits_for_a_lock(&watcher, &[]) => {}
        }
    }
    say(&store, &other, "another conversation continues").await;
    admin.batch_execute("commit").await.unwrap();
    // The dropped call may be done or not. A repetition tells which.
    store.append(&id, left).await.unwrap();
    assert_eq!(texts(&store, &id).await, ["one", "left"]);
}

fn a_call_without_a_runtime_is_an_error() {
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(async { single(&database().await).await });
    let outside = async { store.load(&conversation("a"), Load::new()).await }.now_or_never();
    assert!(matches!(outside, Some(Err(StoreError::Unavailable { .. }))), "{outside:?}");
}
