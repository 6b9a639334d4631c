//! Summaries whose task is in a runtime that exists but is not driven.

use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use tower_chat_history::{
    Engine, HistoryOptions, MemoryStore,
    engine::Spawn,
    store::{Cuts, Seq},
};

use super::{block_on, current_thread, summarizing_options, turn, window};

/// A spawner that never polls its tasks, like a runtime between two calls of `block_on`.
#[derive(Clone, Default)]
struct NeverPolled(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Spawn for NeverPolled {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push(task);
    }
}

impl fmt::Debug for NeverPolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NeverPolled")
    }
}

fn idle() -> HistoryOptions {
    summarizing_options().spawn(NeverPolled::default())
}

#[tokio::test(start_paused = true)]
async fn drain_completes_undriven_summaries() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), idle());
    for _ in 0..6 {
        turn(&engine, "c").await;
    }
    assert_eq!(engine.drain(Duration::from_secs(3)).now_or_never(), Some(Ok(())), "it neither waits nor spins");
    assert!(window(&store, "c").await.compaction.is_some());
    engine.drain(Duration::ZERO).await.unwrap();
}

#[test]
fn drain_outside_of_a_runtime_returns() {
    let runtime = current_thread();
    let engine = runtime.block_on(async {
        let engine = Engine::with_options(MemoryStore::new(), summarizing_options());
        for _ in 0..6 {
            turn(&engine, "c").await;
        }
        engine
    });
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(block_on(engine.drain(Duration::from_secs(1)))));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(30)), Ok(Ok(())));
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn a_completed_summary_does_not_block_the_next_one() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), idle());
    let mut covered = Vec::new();
    for number in 0..30 {
        turn(&engine, "c").await;
        if number % 5 == 4 {
            engine.drain(Duration::from_secs(1)).await.unwrap();
            let stored = window(&store, "c").await.compaction;
            covered.push(stored.map_or(Seq::FIRST, |stored| Cuts::read(&stored).unwrap().cut.covers_to()));
        }
    }
    assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{covered:?}");
}

/// If the task of a summary runs after another task has made that summary, it must not remove the next
/// summary's entry.
#[tokio::test(start_paused = true)]
async fn a_late_task_does_not_remove_the_next_summarys_entry() {
    let idle = NeverPolled::default();
    let engine = Engine::with_options(MemoryStore::new(), summarizing_options().spawn(idle.clone()));
    for _ in 0..6 {
        turn(&engine, "c").await;
    }
    engine.drain(Duration::from_secs(1)).await.unwrap();
    let late: Vec<_> = idle.0.lock().unwrap().drain(..).collect();
    while idle.0.lock().unwrap().is_empty() {
        turn(&engine, "c").await;
    }
    futures_util::future::join_all(late).await;
    turn(&engine, "c").await;
    assert_eq!(idle.0.lock().unwrap().len(), 1, "the task counts as pending");
}
