//! User code that panics where nobody can take a panic: in drops, and in tasks of the engine.

use std::{panic::AssertUnwindSafe, time::Duration};

use async_trait::async_trait;
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use tower_chat_history::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Engine, HistoryOptions, HistoryStore, Incarnation, Load,
    Loaded, MemoryStore, Message, OnInterruption, Page, Reply, Seq, Spawn, StoreError, TurnInput,
    adapt::{Flow, FoldReply},
    summary::{Summaries, SummarizeWhen},
};

use super::{Says, conversation, summarizing, turn};

#[derive(Debug)]
struct NoMoreTasks;

impl Spawn for NoMoreTasks {
    fn spawn(&self, _: BoxFuture<'static, ()>) {
        panic!("no more tasks")
    }
}

fn catches(work: impl FnOnce()) {
    assert!(std::panic::catch_unwind(AssertUnwindSafe(work)).is_ok(), "the panic stays inside");
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_dropped_without_a_panic_of_the_spawner_and_stays_pending() {
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().spawn(NoMoreTasks));
    let begun = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    let commit = begun.commit(Reply::new(Message::assistant("a")));
    catches(|| drop(commit));
    assert_eq!(engine.pending_saves(), 1);
    engine.drain(Duration::from_secs(1)).await.unwrap();
    assert_eq!(engine.pending_saves(), 0);
}

#[derive(Default)]
struct Fold {
    panics: bool,
}

impl FoldReply<u8> for Fold {
    fn push(&mut self, _: &u8) -> Flow {
        Flow::Pass
    }
    fn is_complete(&self) -> bool {
        false
    }
    fn is_whole(&self) -> bool {
        false
    }
    fn reply(&self) -> Reply {
        assert!(!self.panics, "the fold panics");
        Reply::new(Message::assistant("a"))
    }
    fn partial(&self) -> Option<Reply> {
        assert!(!self.panics, "the fold panics");
        Some(Reply::new(Message::assistant("a")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_dropped_without_a_panic_of_spawner_or_fold() {
    for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
        for panics in [false, true] {
            let options = HistoryOptions::new().spawn(NoMoreTasks).on_interruption(policy);
            let engine = Engine::with_options(MemoryStore::new(), options);
            let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
            let upstream = stream::iter([Ok::<_, &str>(1)]).chain(stream::pending());
            let mut stream = turn.record_stream(upstream, Fold { panics }, |_| "stalled");
            stream.next().await;
            catches(|| drop(stream));
            engine.drain(Duration::from_secs(1)).await.unwrap();
        }
    }
}

/// Panics when a compaction is stored.
#[derive(Debug, Default)]
struct PanicsAtCompact(MemoryStore);

#[async_trait]
impl HistoryStore for PanicsAtCompact {
    fn system(&self) -> &'static str {
        "memory"
    }
    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.0.load(id, load).await
    }
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        // Without its compaction, which is then stored by itself.
        self.0.append(id, Append::new(append.expect, append.exchange)).await
    }
    async fn compact(&self, _: &ConversationId, _: Incarnation, _: Compact) -> Result<CompactOutcome, StoreError> {
        panic!("no compactions here")
    }
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.0.read(id, from, limit).await
    }
    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.0.delete(id).await
    }
}

/// The exchange is in the log, and its report must say so.
#[tokio::test(start_paused = true)]
async fn a_store_that_panics_at_the_summary_does_not_make_a_stored_exchange_a_failed_one() {
    let summaries = Summaries::new(Says::default()).least_room(1).max_tokens(20);
    let options = summarizing().summaries(summaries.when(SummarizeWhen::BeforeEveryCall));
    let engine = Engine::with_options(PanicsAtCompact::default(), options);
    for _ in 0..3 {
        assert_eq!(turn(&engine, "c").await.outcome.kind(), "stored");
    }
}
