//! User code that panics in drops and in tasks of the engine, where no caller can catch the panic.

use std::{panic::AssertUnwindSafe, pin::Pin, time::Duration};

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, Engine, HistoryError, HistoryOptions, HistoryStore,
    HistoryStoreExt as _, MemoryStore, Message, Policies, Reply, StoreError, TurnInput,
    adapt::{Custom, Flow, FoldReply},
    engine::{Spawn, ToolResults},
    error::StoreResultsError,
    policy::{OnInterruption, OnLoadFailure},
    report::HistoryStatus,
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
    summary::{Summaries, SummarizeWhen},
};

use super::{FixedSummarizer, conversation, summarizing_options, turn};

#[derive(Debug)]
struct NoMoreTasks;

impl Spawn for NoMoreTasks {
    fn spawn(&self, _: BoxFuture<'static, ()>) {
        panic!("no more tasks")
    }
}

fn assert_no_panic(work: impl FnOnce()) {
    assert!(std::panic::catch_unwind(AssertUnwindSafe(work)).is_ok(), "the panic is caught");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_spawner_leaves_the_dropped_commit_pending() {
    let engine = Engine::with_options(MemoryStore::new(), HistoryOptions::new().spawn(NoMoreTasks));
    let begun = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    let commit = begun.commit(Reply::new(Message::assistant("a")));
    assert_no_panic(|| drop(commit));
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
async fn dropping_a_stream_catches_panics_of_spawner_and_fold() {
    for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
        for panics in [false, true] {
            let options = HistoryOptions::new().spawn(NoMoreTasks).policies(Policies::new().on_interruption(policy));
            let engine = Engine::with_options(MemoryStore::new(), options);
            let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
            let upstream = stream::iter([Ok::<_, &str>(1)]).chain(stream::pending());
            let mut stream = turn.record_stream(upstream, Fold { panics }, |_| "stalled");
            stream.next().await;
            assert_no_panic(|| drop(stream));
            engine.drain(Duration::from_secs(1)).await.unwrap();
        }
    }
}

/// Joins texts until "END". It panics at "panic".
#[derive(Default)]
struct TextFold {
    text: String,
    ended: bool,
}

impl FoldReply<&'static str> for TextFold {
    fn push(&mut self, item: &&'static str) -> Flow {
        assert_ne!(*item, "panic", "the fold panics");
        if *item == "END" {
            self.ended = true;
        } else {
            self.text += item;
        }
        Flow::Pass
    }
    fn is_complete(&self) -> bool {
        self.ended
    }
    fn is_whole(&self) -> bool {
        self.ended
    }
    fn reply(&self) -> Reply {
        Reply::new(Message::assistant(&self.text))
    }
    fn partial(&self) -> Option<Reply> {
        Some(self.reply())
    }
}

/// Returns the outcome of a turn and the stored reply. Its caller catches the panic of the stream, or of its fold, and
/// reads on or leaves.
async fn outcome_after_panic(
    policy: OnInterruption,
    items: &'static [&'static str],
    stream_panics: bool,
    reads_on: bool,
) -> (&'static str, Option<String>) {
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(policy));
    let engine = Engine::with_options(MemoryStore::new(), options);
    let (call, report) = CallOptions::new().with_report();
    let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")]).options(call)).await.unwrap();
    let upstream = stream::iter(items).map(move |item| {
        assert!(!stream_panics || *item != "panic", "the stream panics");
        Ok::<_, &str>(*item)
    });
    let mut recorded = Box::pin(turn.record_stream(upstream, TextFold::default(), |_| "stalled"));
    let mut panics = 0;
    loop {
        match AssertUnwindSafe(recorded.next()).catch_unwind().await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(_) => {
                panics += 1;
                if !reads_on {
                    break;
                }
            }
        }
    }
    assert_eq!(panics, 1, "the panic reaches the caller once");
    drop(recorded);
    engine.drain(Duration::from_secs(1)).await.unwrap();
    let log = engine.store().conversation(&conversation("c")).exchanges().await.unwrap();
    let reply = log.first().map(|stored| stored.exchange.messages[1].text().into_owned());
    (report.await.unwrap().outcome.kind(), reply)
}

/// The reply lacks the item at which the fold panicked, so it must not be stored as a complete one.
#[tokio::test(start_paused = true)]
async fn a_stream_is_interrupted_by_its_panic_and_by_that_of_its_fold() {
    const ITEMS: &[&str] = &["a", "panic", "b", "END"];
    for reads_on in [false, true] {
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            for stream_panics in [false, true] {
                let outcome = outcome_after_panic(policy, ITEMS, stream_panics, reads_on).await;
                let keeps = stream_panics && policy == OnInterruption::KeepText;
                let expected = if keeps { ("stored", Some("a".to_owned())) } else { ("interrupted", None) };
                assert_eq!(outcome, expected, "{policy:?}, stream: {stream_panics}, reads on: {reads_on}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_complete_reply_is_stored_although_its_stream_or_fold_panics_later() {
    for reads_on in [false, true] {
        for stream_panics in [false, true] {
            let outcome =
                outcome_after_panic(OnInterruption::Discard, &["a", "END", "panic", "b"], stream_panics, reads_on);
            assert_eq!(outcome.await, ("stored", Some("a".to_owned())));
        }
    }
}

/// The point at which the store panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PanicPoint {
    /// A load, when its future is polled.
    Load,
    /// A load, before it returns its future.
    LoadAtOnce,
    Compact,
}

#[derive(Debug)]
struct Panics {
    store: MemoryStore,
    at: PanicPoint,
}

impl Panics {
    fn at(at: PanicPoint) -> Self {
        Self { store: MemoryStore::new(), at }
    }
}

type Loading<'a> = Pin<Box<dyn Future<Output = Result<Loaded, StoreError>> + Send + 'a>>;

#[async_trait]
impl HistoryStore for Panics {
    fn system(&self) -> &'static str {
        "memory"
    }
    // As the macro expands it, with an assertion before the future.
    fn load<'store, 'id, 'call>(&'store self, id: &'id ConversationId, load: Load) -> Loading<'call>
    where
        'store: 'call,
        'id: 'call,
        Self: 'call,
    {
        assert_ne!(self.at, PanicPoint::LoadAtOnce, "no loads here");
        Box::pin(async move {
            assert_ne!(self.at, PanicPoint::Load, "no loads here");
            self.store.load(id, load).await
        })
    }
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        // Without the compaction, which is then stored by itself.
        self.store.append(id, Append::new(append.expect, append.exchange)).await
    }
    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        assert_ne!(self.at, PanicPoint::Compact, "no compactions here");
        self.store.compact(id, incarnation, compact).await
    }
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.store.read(id, from, limit).await
    }
    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.store.delete(id).await
    }
}

/// The exchange is in the log, and its report must say so.
#[tokio::test(start_paused = true)]
async fn a_panic_while_storing_the_summary_does_not_fail_the_turn() {
    let summaries = Summaries::new(FixedSummarizer::default()).least_room(1).max_tokens(20);
    let options = summarizing_options().summaries(summaries.when(SummarizeWhen::BeforeEveryCall));
    let engine = Engine::with_options(Panics::at(PanicPoint::Compact), options);
    for _ in 0..3 {
        assert_eq!(turn(&engine, "c").await.outcome.kind(), "stored");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_load_is_an_error_for_the_caller() {
    for at in [PanicPoint::Load, PanicPoint::LoadAtOnce] {
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages)
            .reply(|answer: &Message| answer.clone())
            .id_from(|_| conversation("c"));
        let llm = service_fn(|_: Vec<Message>| async { Ok::<_, BoxError>(Message::assistant("a")) });
        let layer = ChatHistoryLayer::new(Panics::at(at), adapter);
        let call = layer.layer(llm).oneshot(vec![Message::user("u")]);
        let error = AssertUnwindSafe(call).catch_unwind().await.expect("the panic is caught").unwrap_err();
        let error = error.downcast::<HistoryError>().unwrap();
        assert!(matches!(*error, HistoryError::LoadPanicked), "{error}");
        assert_eq!(error.kind(), "panicked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_load_is_handled_like_a_failed_load() {
    let options = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
    let engine = Engine::with_options(Panics::at(PanicPoint::Load), options);
    let report = turn(&engine, "c").await;
    assert_eq!((report.history, report.outcome.kind()), (HistoryStatus::Unavailable, "stored"));
    let results = ToolResults::new(conversation("c"), [Message::tool("x", "r")]);
    let Err(StoreResultsError::History(HistoryError::LoadPanicked)) = engine.store_results(results).await else {
        panic!("it was loaded")
    };
}
