//! Saves that are finished after their runtime was shut down. No path may panic, because programs may abort on
//! panics.

#![allow(clippy::async_yields_async)] // The tests return a commit from a runtime.

use std::{cell::Cell, panic, sync::Once, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tower_chat_history::{
    ConversationId, Engine, HistoryOptions, HistoryStore, MemoryStore, Message, Policies, Reply, StoreError, TurnInput,
    engine::{Commit, TokioSpawn},
    policy::OnInterruption,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
};

use super::{block_on, conversation, current_thread};

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of panics of this thread during `work`, as counted by the panic hook.
fn panics_of(work: impl FnOnce()) -> usize {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
    let before = PANICS.get();
    work();
    PANICS.get() - before
}

/// A store whose appends are pending a few times. The first ones fail or panic, as often as the fields say.
#[derive(Debug, Default)]
struct Slow {
    inner: MemoryStore,
    panics: std::sync::atomic::AtomicUsize,
    failures: std::sync::atomic::AtomicUsize,
}

impl Slow {
    fn take_one(counter: &std::sync::atomic::AtomicUsize) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        counter.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

async fn pending_thrice() {
    let mut polls = 0;
    std::future::poll_fn(|context| {
        polls += 1;
        context.waker().wake_by_ref();
        if polls > 3 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[async_trait]
impl HistoryStore for Slow {
    fn system(&self) -> &'static str {
        "memory"
    }
    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.inner.load(id, load).await
    }
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        pending_thrice().await;
        assert!(!Self::take_one(&self.panics), "no reactor running");
        if Self::take_one(&self.failures) {
            return Err(StoreError::unavailable("the connection was closed"));
        }
        self.inner.append(id, append).await
    }
    async fn compact(&self, id: &ConversationId, of: Incarnation, to: Compact) -> Result<CompactOutcome, StoreError> {
        self.inner.compact(id, of, to).await
    }
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.inner.read(id, from, limit).await
    }
    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

async fn commit(engine: &Engine) -> Commit {
    let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a")))
}

#[test]
fn a_save_is_finished_outside_of_a_runtime_without_a_panic() {
    for begun in [false, true] {
        for failures in 0..2 {
            let runtime = current_thread();
            let store = Slow { failures: failures.into(), ..Slow::default() };
            let engine = Engine::with_options(store, HistoryOptions::new());
            let mut commit = runtime.block_on(async {
                let mut commit = commit(&engine).await;
                if begun {
                    assert!((&mut commit).now_or_never().is_none(), "the timer is set");
                }
                commit
            });
            drop(runtime);
            assert_eq!(engine.pending_saves(), 1);
            let panics = panics_of(|| {
                let report = block_on(&mut commit).unwrap();
                assert_eq!(report.outcome.kind(), "stored");
            });
            assert_eq!(panics, 0, "begun: {begun}, failures: {failures}");
        }
    }
}

#[test]
fn a_save_spawned_on_a_dead_runtime_stays_pending_without_a_panic() {
    let dead = current_thread();
    let spawn = TokioSpawn::from(dead.handle().clone());
    let engine = Engine::with_options(Slow::default(), HistoryOptions::new().spawn(spawn));
    let commit = dead.block_on(commit(&engine));
    drop(dead);
    let panics = panics_of(|| {
        drop(commit);
        assert_eq!(engine.pending_saves(), 1);
        block_on(engine.drain(Duration::from_secs(1))).unwrap();
    });
    assert_eq!((panics, engine.pending_saves()), (0, 0));
}

/// A large exchange is counted on a blocking thread, and the runtime that was shut down has none.
#[test]
fn a_large_exchange_is_saved_outside_of_a_runtime_without_a_panic() {
    let runtime = current_thread();
    let engine = Engine::with_options(Slow::default(), HistoryOptions::new());
    let commit = runtime.block_on(async {
        let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
        turn.commit(Reply::new(Message::assistant("word ".repeat(1 << 18))))
    });
    drop(runtime);
    let panics = panics_of(|| assert_eq!(block_on(commit).unwrap().outcome.kind(), "stored"));
    assert_eq!(panics, 0);
}

/// The drop of a task polls the pending save while its runtime shuts down.
#[test]
fn a_save_is_polled_while_its_runtime_shuts_down_without_a_panic() {
    struct Polls(Engine);
    impl Drop for Polls {
        fn drop(&mut self) {
            for _ in 0..3 {
                let _ = Box::pin(self.0.drain(Duration::from_secs(1))).now_or_never();
            }
        }
    }
    for threads in [0, 2] {
        let runtime = if threads == 0 {
            current_thread()
        } else {
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
        };
        let options = HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::Detach));
        let engine = Engine::with_options(Slow::default(), options);
        let commit = runtime.block_on(commit(&engine));
        let polls = Polls(engine.clone());
        let dropped = runtime.spawn(async move {
            let _polls = polls;
            std::future::pending::<()>().await;
        });
        let panics = panics_of(|| drop(runtime));
        assert!(dropped.is_finished());
        assert_eq!(panics, 0);
        block_on(engine.drain(Duration::from_secs(1))).unwrap();
        assert_eq!(block_on(commit).unwrap().outcome.kind(), "stored");
    }
}

/// A store may panic if its own runtime is gone. The exchange id makes a repetition harmless, so the save is
/// repeated.
#[tokio::test(start_paused = true)]
async fn a_save_whose_store_panicked_is_retried() {
    let engine = Engine::with_options(Slow { panics: 2.into(), ..Slow::default() }, HistoryOptions::new());
    let report = commit(&engine).await.await.unwrap();
    assert_eq!(report.outcome.kind(), "stored");

    let engine = Engine::with_options(Slow { panics: 3.into(), ..Slow::default() }, HistoryOptions::new());
    let failed = commit(&engine).await.await.unwrap_err();
    assert!(matches!(failed.reason(), tower_chat_history::SaveError::Panicked), "attempts are limited");
}
