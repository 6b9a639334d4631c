//! Summaries whose task lies in a runtime that lives and is not driven.

use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tower_chat_history::{Engine, HistoryOptions, MemoryStore, engine::Spawn, store::Seq};

use super::{block_on, current_thread, summarizing, turn, window};

/// Makes no progress with anything, as a runtime between two `block_on`s.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<Vec<BoxFuture<'static, ()>>>>);

impl Spawn for Idle {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push(task);
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Idle")
    }
}

fn idle() -> HistoryOptions {
    summarizing().spawn(Idle::default())
}

#[tokio::test(start_paused = true)]
async fn draining_makes_the_summaries_that_nobody_drives_and_ends() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), idle());
    for _ in 0..6 {
        turn(&engine, "c").await;
    }
    let begun = std::time::Instant::now();
    engine.drain(Duration::from_secs(3)).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3), "no spinning");
    assert!(window(&store, "c").await.compaction.is_some());
    engine.drain(Duration::ZERO).await.unwrap();
}

#[test]
fn draining_outside_of_a_runtime_ends() {
    let runtime = current_thread();
    let engine = runtime.block_on(async {
        let engine = Engine::with_options(MemoryStore::new(), summarizing());
        for _ in 0..6 {
            turn(&engine, "c").await;
        }
        engine
    });
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(block_on(engine.drain(Duration::from_secs(1)))));
    assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(Ok(())));
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_made_does_not_stop_the_next_one() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), idle());
    let mut covered = Vec::new();
    for number in 0..30 {
        turn(&engine, "c").await;
        if number % 5 == 4 {
            engine.drain(Duration::from_secs(1)).await.unwrap();
            covered.push(window(&store, "c").await.compaction.map_or(Seq::FIRST, |stored| stored.cut.covers_to()));
        }
    }
    assert!(covered.windows(2).all(|pair| pair[0] < pair[1]), "{covered:?}");
}

/// The task of a summary that was made elsewhere comes late: it must not remove the entry of the one after.
#[tokio::test(start_paused = true)]
async fn a_late_task_leaves_the_next_summary_s_entry_alone() {
    let idle = Idle::default();
    let engine = Engine::with_options(MemoryStore::new(), summarizing().spawn(idle.clone()));
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
    assert_eq!(idle.0.lock().unwrap().len(), 1, "and counts as that");
}
