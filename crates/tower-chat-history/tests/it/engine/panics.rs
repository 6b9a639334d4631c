//! User code that panics: the panic reaches its own caller and no other one, and no drop panics.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, HistoryStore,
    HistoryStoreExt as _, MemoryStore, Message, Policies, Reply, SaveError, StoreError, TurnInput,
    adapt::{Flow, FoldReply},
    policy::{OnConflict, OnInterruption, QueueLimits},
    recall::{Recall, RecallError, RecallOptions, RecallRequest, Recollection},
    store::{Append, Appended, Compact, CompactOutcome, Incarnation, Load, Loaded, Page, Seq},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
    tokens::TokenCounter,
};

use super::{conversation, summarizing_options, support::Reports, turn};

fn assert_no_panic(work: impl FnOnce()) {
    assert!(std::panic::catch_unwind(AssertUnwindSafe(work)).is_ok(), "the panic is caught");
}

/// A fold that panics as soon as its reply is asked for.
struct Fold;

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
        panic!("the fold panics")
    }
    fn partial(&self) -> Option<Reply> {
        panic!("the fold panics")
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_stream_catches_a_panic_of_its_fold() {
    for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
        let reports = Reports::default();
        let options = HistoryOptions::new().policies(Policies::new().on_interruption(policy)).on_turn(reports.hook());
        let engine = Engine::with_options(MemoryStore::new(), options);
        let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
        let mut stream = turn.record_stream(stream::iter([Ok::<_, &str>(1), Ok(2)]), Fold, |_| "stalled");
        stream.next().await;
        assert_no_panic(|| drop(stream));
        engine.drain(Duration::from_secs(1)).await.unwrap();
        assert_eq!(reports.all()[0].outcome.kind(), "abandoned", "{policy:?}");
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
    let reports = Reports::default();
    let options = HistoryOptions::new().policies(Policies::new().on_interruption(policy)).on_turn(reports.hook());
    let engine = Engine::with_options(MemoryStore::new(), options);
    let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
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
    (reports.all()[0].outcome.kind(), reply)
}

/// The reply lacks the item at which the fold panicked, so it must not be stored as a complete one.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_panic_and_with_that_of_its_fold() {
    const ITEMS: &[&str] = &["a", "panic", "b", "END"];
    for reads_on in [false, true] {
        for policy in [OnInterruption::Discard, OnInterruption::KeepText, OnInterruption::Detach] {
            for stream_panics in [false, true] {
                let outcome = outcome_after_panic(policy, ITEMS, stream_panics, reads_on).await;
                let nothing = ("abandoned", None);
                assert_eq!(outcome, nothing, "{policy:?}, stream: {stream_panics}, reads on: {reads_on}");
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

/// A store that panics in one kind of call, this many times.
#[derive(Debug)]
struct Panics {
    store: MemoryStore,
    loads: AtomicUsize,
    appends: AtomicUsize,
}

impl Panics {
    fn new(loads: usize, appends: usize) -> Self {
        Self { store: MemoryStore::new(), loads: loads.into(), appends: appends.into() }
    }
}

/// Panics if the number is not 0, and lowers it.
fn panic_once(left: &AtomicUsize) {
    let panics = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
    assert!(!panics, "it panics");
}

#[async_trait]
impl HistoryStore for Panics {
    fn system(&self) -> &'static str {
        "memory"
    }
    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        panic_once(&self.loads);
        self.store.load(id, load).await
    }
    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        tokio::task::yield_now().await;
        panic_once(&self.appends);
        self.store.append(id, append).await
    }
    async fn compact(&self, id: &ConversationId, of: Incarnation, to: Compact) -> Result<CompactOutcome, StoreError> {
        self.store.compact(id, of, to).await
    }
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.store.read(id, from, limit).await
    }
    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.store.delete(id).await
    }
}

/// A counter that panics this many times.
#[derive(Debug)]
struct PanickingCounter(AtomicUsize);

impl TokenCounter for PanickingCounter {
    fn name(&self) -> Option<&Arc<str>> {
        None
    }
    fn count_text(&self, _: &str) -> u32 {
        panic_once(&self.0);
        1
    }
}

/// A search that panics this many times.
#[derive(Debug)]
struct PanickingSearch(AtomicUsize);

#[async_trait]
impl Recall for PanickingSearch {
    async fn recall(&self, _: RecallRequest<'_>) -> Result<Recollection, RecallError> {
        panic_once(&self.0);
        Ok(Recollection::nothing())
    }
    fn covers_others(&self, _: &ConversationId) -> bool {
        true
    }
}

/// The panic ends the task of its own caller. The next call finds the queue free.
#[tokio::test(start_paused = true)]
async fn a_panic_before_the_model_is_called_reaches_the_caller_and_no_other_call() {
    let queued = Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default()));
    let options = HistoryOptions::new().policies(queued);
    let search = RecallOptions::new(PanickingSearch(AtomicUsize::new(1)));
    let counter = PanickingCounter(AtomicUsize::new(1));
    let context = ContextOptions::new().token_counter(counter).budget(ContextBudget::tokens(4_000));
    for engine in [
        Engine::with_options(Panics::new(1, 0), options.clone()),
        Engine::with_options(MemoryStore::new(), options.clone().recall(search)),
        Engine::with_options(MemoryStore::new(), options.context(context)),
    ] {
        let begun = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await })
        };
        assert!(begun.await.unwrap_err().is_panic());
        for _ in 0..2 {
            assert_eq!(turn(&engine, "c").await.outcome.kind(), "stored");
        }
    }
}

/// The save is shared: the next call of the conversation and a drain poll it, too.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_save_hands_over_the_reply_and_harms_no_other_call() {
    for leaves in [false, true] {
        let reports = Reports::default();
        let engine = Engine::with_options(Panics::new(0, 1), HistoryOptions::new().on_turn(reports.hook()));
        let begun = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
        let commit = begun.commit(Reply::new(Message::assistant("a")));
        if leaves {
            drop(commit);
        } else {
            let failed = commit.await.unwrap_err();
            assert!(matches!(failed.reason(), SaveError::Panicked), "{failed}");
            assert_eq!(failed.into_response().messages, [Message::assistant("a")]);
        }
        assert_eq!(turn(&engine, "c").await.outcome.kind(), "stored");
        engine.drain(Duration::from_secs(1)).await.unwrap();
        assert_eq!(engine.pending_saves(), 0);
        assert_eq!(reports.all()[0].save_error().map(SaveError::kind), Some("panicked"));
        assert_eq!(engine.store().conversation(&conversation("c")).exchanges().await.unwrap().len(), 1);
    }
}

#[derive(Debug)]
struct PanickingSummarizer;

#[async_trait]
impl Summarizer for PanickingSummarizer {
    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        tokio::task::yield_now().await;
        panic!("the summarizer panics")
    }
}

/// Two calls wait for the same summary. Both go on without it.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_summarizer_does_not_reach_the_calls_that_wait_for_it() {
    for when in [SummarizeWhen::AfterReply { percent: 10 }, SummarizeWhen::BeforeCall] {
        let summaries = Summaries::new(PanickingSummarizer).least_room(1).max_tokens(20).when(when);
        let engine = Engine::with_options(MemoryStore::new(), summarizing_options().summaries(summaries));
        for _ in 0..10 {
            let (one, other) = tokio::join!(turn(&engine, "c"), turn(&engine, "c"));
            assert_eq!((one.outcome.kind(), other.outcome.kind()), ("stored", "stored"), "{when:?}");
            engine.drain(Duration::from_secs(1)).await.unwrap();
        }
    }
}

/// The call that asks for the summary polls it, so the panic is its own. Nothing of that call is stored.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_summarizer_reaches_a_call_that_summarizes_before_every_call() {
    let summaries = Summaries::new(PanickingSummarizer).least_room(1).max_tokens(20);
    let summaries = summaries.when(SummarizeWhen::BeforeEveryCall);
    let engine = Engine::with_options(MemoryStore::new(), summarizing_options().summaries(summaries));
    let mut stored = 0;
    loop {
        let engine = engine.clone();
        match tokio::spawn(async move { turn(&engine, "c").await.outcome.kind() }).await {
            Ok(kind) => assert_eq!(kind, "stored"),
            Err(error) => {
                assert!(error.is_panic());
                break;
            }
        }
        stored += 1;
        assert!(stored < 20, "a summary is due");
    }
    assert_eq!(engine.store().conversation(&conversation("c")).exchanges().await.unwrap().len(), stored);
}
