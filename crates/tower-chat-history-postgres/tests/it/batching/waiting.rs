//! The wait for a connection, and its limits.

use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::{
    runtime,
    time::{self, Instant},
};
use tower_chat_history_core::{HistoryStore, Load, StoreError};

use super::{at_once, conversations};
use crate::{
    limits::one_thread,
    proxy::Proxy,
    support::{append, conversation, database, patient, say, single, single_with, texts},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        dropped_calls_are_not_made,
        large_appends_go_alone;
        blocking: a_batched_call_waits_no_longer_than_a_single_one, a_pool_without_waiting_is_not_polled_forever, a_waiting_call_outlives_the_runtime_of_another, a_waiting_call_does_not_depend_on_an_idle_runtime,
    ]
}

async fn dropped_calls_are_not_made() {
    let store = single(&database().await).await;
    let ids = conversations(3);
    let held = store.pool().get().await.unwrap();
    let mut calls: Vec<_> = ids.iter().map(|id| store.append(id, append("one"))).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    drop(calls.remove(0));
    drop(held);
    join_all(calls).await;
    assert!(store.load(&ids[0], Load::new()).await.unwrap().is_absent());
    for id in &ids[1..] {
        assert_eq!(texts(&store, id).await, ["one"]);
    }
}

async fn large_appends_go_alone() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(4);
    let large = "x".repeat(100_000);
    say(&store, &conversation("prepares"), "one").await;
    proxy.trips();
    at_once(&store, ids.iter().map(|id| store.append(id, append(&large)))).await;
    assert_eq!(proxy.trips(), 4);
    for id in &ids {
        assert_eq!(texts(&store, id).await, [&*large]);
    }
}

fn a_batched_call_waits_no_longer_than_a_single_one() {
    const WAIT: Duration = Duration::from_secs(30);
    one_thread().block_on(async {
        let store = patient().connections(1).pool_timeout(WAIT).connect(&database().await).await.unwrap();
        let ids = conversations(20);
        let held = store.pool().get().await.unwrap();
        time::pause();
        let began = Instant::now();
        let failed = join_all(ids.iter().map(|id| store.load(id, Load::new()))).await;
        assert!(failed.iter().all(|error| matches!(error, Err(StoreError::Unavailable { .. }))), "{failed:?}");
        assert!(began.elapsed() < WAIT + Duration::from_secs(1), "{:?}", began.elapsed());
        time::resume();
        drop(held);
        // The failed calls have left the queue.
        for loaded in at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await {
            assert!(loaded.unwrap().is_absent());
        }
    });
}

/// On one thread, which a busy loop would block.
fn a_pool_without_waiting_is_not_polled_forever() {
    one_thread().block_on(async {
        let store = single_with(&database().await, Duration::ZERO).await;
        let _held = store.pool().get().await.unwrap();
        let ids = conversations(3);
        let failed = join_all(ids.iter().map(|id| store.load(id, Load::new()))).await;
        assert!(failed.iter().all(|error| matches!(error, Err(StoreError::Unavailable { .. }))), "{failed:?}");
    });
}

fn a_waiting_call_outlives_the_runtime_of_another() {
    let runtime = || runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ids = conversations(2);
    let store = second.block_on(async { single(&database().await).await });
    let held = second.block_on(store.pool().get()).unwrap();
    // The first call waits for a connection on behalf of both.
    let mut of_first = store.append(&ids[0], append("one"));
    let mut of_second = store.append(&ids[1], append("one"));
    first.block_on(async { assert!((&mut of_first).now_or_never().is_none()) });
    second.block_on(async { assert!((&mut of_second).now_or_never().is_none()) });
    first.shutdown_timeout(Duration::from_secs(60));
    drop(held);
    second.block_on(async {
        assert_eq!(of_first.await.unwrap().seq.get(), 0);
        assert_eq!(of_second.await.unwrap().seq.get(), 0);
    });
}

fn a_waiting_call_does_not_depend_on_an_idle_runtime() {
    let (idle, second) = (one_thread(), runtime::Builder::new_multi_thread().enable_all().build().unwrap());
    let ids = conversations(2);
    let store = second.block_on(async { single_with(&database().await, Duration::from_millis(300)).await });
    let held = second.block_on(store.pool().get()).unwrap();
    let mut of_idle = store.append(&ids[0], append("one"));
    let mut of_second = store.append(&ids[1], append("one"));
    idle.block_on(async { assert!((&mut of_idle).now_or_never().is_none()) });
    second.block_on(async { assert!((&mut of_second).now_or_never().is_none()) });
    drop(held);
    // The connection is free, but the runtime that should fetch it is idle.
    assert_eq!(second.block_on(of_second).unwrap().seq.get(), 0);
    assert_eq!(idle.block_on(of_idle).unwrap().seq.get(), 0);
}
