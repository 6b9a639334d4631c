//! Log events of failures name the causes and contain no message text. The test has its own process, because a
//! subscriber of one thread and calls on other threads would disturb each other.

#![allow(clippy::unwrap_used)] // Tests may unwrap.

use std::{
    borrow::Cow,
    error::Error,
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, ContextBudget, ConversationId, Engine, HistoryOptions, MemoryStore, Message, Policies, Reply, Retention,
    TurnInput,
    dialect::OpenAiResponses,
    policy::OnLoadFailure,
    refusal::Remedy,
    store::{Cut, Cuts, HistoryStore as _, Load, Loaded, Profile, Seq},
    summary::{Summaries, SummarizeWhen, Summarizer, SummaryRequest, SummaryResponse},
};
use tower_chat_history_test::{Fault, FaultStore, Op};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

const SECRET: &str = "hush-hush";

/// Collects events, one line for each.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?}; ").unwrap();
    }
}

impl Subscriber for Events {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_chat_history")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Events {
    /// Takes the events so far, none of which may contain the secret.
    fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        for line in &lines {
            assert!(!line.contains(SECRET), "{line}");
        }
        lines
    }

    /// Asserts that an event with this message names this cause.
    #[track_caller]
    fn name(&self, message: &str, cause: &str) {
        let lines = self.take();
        let found = lines.iter().any(|line| line.contains(message) && line.contains("error=") && line.contains(cause));
        assert!(found, "no event with {message:?} and {cause:?} in {lines:#?}");
    }
}

/// A provider's error, which quotes the request.
#[derive(Debug, thiserror::Error)]
#[error("cannot summarize {SECRET:?}")]
struct QuotingError(#[source] BoxError);

#[derive(Clone, Copy, Debug)]
enum Answer {
    Fails,
    Empty,
    TooLong,
    CutOff,
    Hangs,
    Good,
}

#[derive(Debug)]
struct Answers(Answer);

#[async_trait]
impl Summarizer for Answers {
    fn error_type(&self, _: &(dyn Error + 'static)) -> Cow<'static, str> {
        "429".into()
    }

    async fn summarize(&self, _: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        match self.0 {
            Answer::Fails => Err(QuotingError(SECRET.into()).into()),
            Answer::Empty => Ok(SummaryResponse::new(" ")),
            Answer::TooLong => Ok(SummaryResponse::new(SECRET.repeat(1_000))),
            Answer::CutOff => {
                let mut cut = SummaryResponse::new(SECRET);
                cut.finished = false;
                Ok(cut)
            }
            Answer::Hangs => std::future::pending().await,
            Answer::Good => Ok(SummaryResponse::new(SECRET)),
        }
    }
}

fn summarizing_options(answer: Answer, when: SummarizeWhen) -> HistoryOptions {
    let summaries = Summaries::new(Answers(answer)).max_tokens(20).least_room(1).when(when);
    HistoryOptions::new().context(ContextBudget::tokens(400).reply_reserve(10)).summaries(summaries)
}

/// Runs a turn full of secrets. It may fail.
async fn turn(engine: &Engine) {
    let id = ConversationId::new(["tests", "causes"]).unwrap();
    let question = Message::user(format!("{SECRET} {}", "word ".repeat(30)));
    if let Ok(turn) = engine.begin(TurnInput::new(id, [question])).await {
        drop(turn.commit(Reply::new(Message::assistant(SECRET.repeat(10)))).await);
    }
}

/// Runs a turn that is repaired, and during which another process stores a compaction.
async fn repaired_turn(engine: &Engine, store: &FaultStore<MemoryStore>) {
    let id = ConversationId::new(["tests", "causes"]).unwrap();
    let item = |json: String| Message::in_dialect(&OpenAiResponses, json).unwrap();
    let reply = || {
        let sealed = format!(r#"{{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"{SECRET}"}}"#);
        let text = format!(r#"{{"type":"output_text","text":"{SECRET}"}}"#);
        Reply::of([item(sealed), item(format!(r#"{{"type":"message","role":"assistant","content":[{text}]}}"#))])
    };
    let question = || item(format!(r#"{{"role":"user","content":"{SECRET}"}}"#));
    let begin = || async { engine.begin(TurnInput::new(id.clone(), [question()]).dialect(&OpenAiResponses)).await };
    for _ in 0..2 {
        begin().await.unwrap().commit(reply()).await.unwrap();
    }
    let mut turn = begin().await.unwrap();
    assert!(turn.remedy(&Remedy::WithoutEncrypted, "400").await);
    let Loaded::Window(window) = store.get_ref().load(&id, Load::new()).await.unwrap() else { panic!("it is stored") };
    let cuts = Cuts::new(Cut::window_from(Seq::new(1)));
    let cut = cuts.compact(Profile::default(), window.compaction_version()).unwrap();
    store.get_ref().compact(&id, window.revision.incarnation(), cut).await.unwrap();
    turn.commit(reply()).await.unwrap();
}

const EVERY_FAULT: [(Fault, &str); 5] = [
    (Fault::Unavailable, "the store is not available: the store failed on demand"),
    (Fault::Backend, "the store failed: the store failed on demand"),
    (Fault::Conflict, "the conversation changed since it was loaded"),
    (Fault::Gone, "the conversation was deleted, erased, truncated or pruned since it was loaded"),
    (Fault::Corrupt, "cannot be read: the store failed on demand"),
];

#[tokio::test(start_paused = true)]
async fn failure_events_name_causes_and_contain_no_text() {
    let events = Events::default();
    let _listening = tracing::subscriber::set_default(events.clone());

    for (fault, cause) in EVERY_FAULT {
        let store = FaultStore::new(MemoryStore::new());
        let engine = Engine::with_retention(store.clone(), HistoryOptions::new(), Retention::LastTurns(1));
        turn(&engine).await;
        assert!(events.take().is_empty(), "nothing failed");

        store.fail(Op::Load, 1, fault);
        turn(&engine).await;
        events.name("a call fails: its history could not be loaded", cause);
        let anyway = HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        store.fail(Op::Load, 1, fault);
        turn(&Engine::with_options(store.clone(), anyway)).await;
        events.name("calling the model without history", cause);

        store.fail(Op::Append, 3, fault);
        turn(&engine).await;
        events.name("an exchange could not be stored", cause);
        store.mend();
        store.fail(Op::Append, 1, Fault::Unavailable);
        turn(&engine).await;
        events.name("storing an exchange failed; retrying", "the store failed on demand");

        store.fail(Op::Prune, 1, fault);
        turn(&engine).await;
        events.name("could not be pruned", cause);

        for op in [Op::Read, Op::Compact] {
            for when in [SummarizeWhen::AfterReply { percent: 10 }, SummarizeWhen::BeforeCall] {
                let store = FaultStore::new(MemoryStore::new());
                let engine = Engine::with_options(store.clone(), summarizing_options(Answer::Good, when));
                store.fail(op, usize::MAX, fault);
                for _ in 0..8 {
                    turn(&engine).await;
                    let _ = engine.drain(Duration::from_secs(100)).await;
                }
                events.name("the exchanges of a summary could not be read, or the summary could not be stored", cause);
            }
        }
        // The load before a background summary.
        let store = FaultStore::new(MemoryStore::new());
        let after = SummarizeWhen::AfterReply { percent: 10 };
        let engine = Engine::with_options(store.clone(), summarizing_options(Answer::Good, after));
        turn(&engine).await;
        for _ in 0..8 {
            store.pass(Op::Load, 1);
            store.fail(Op::Load, 1, fault);
            turn(&engine).await;
            let _ = engine.drain(Duration::from_secs(100)).await;
            store.mend();
        }
        events.name("the exchanges to summarize could not be loaded", cause);
    }

    for (fault, cause) in EVERY_FAULT {
        let store = FaultStore::new(MemoryStore::new());
        let engine = Engine::new(store.clone());
        store.fail(Op::Compact, usize::MAX, fault);
        repaired_turn(&engine, &store).await;
        engine.drain(Duration::from_secs(100)).await.unwrap();
        events.name("what a turn has learned from a refusal could not be stored", cause);
    }

    for (op, message) in [(Op::Load, "its history could not be loaded"), (Op::Append, "could not be stored")] {
        let store = FaultStore::new(MemoryStore::new());
        store.delay(op, Duration::from_secs(11));
        turn(&Engine::new(store)).await;
        events.name(message, "10000 ms");
    }

    for (answer, cause) in [
        (Answer::Fails, "the summarizer failed: 429"),
        (Answer::Empty, "empty summary"),
        (Answer::TooLong, "are allowed"),
        (Answer::CutOff, "reached its token limit"),
        (Answer::Hangs, "was not made within"),
    ] {
        for when in
            [SummarizeWhen::AfterReply { percent: 10 }, SummarizeWhen::BeforeCall, SummarizeWhen::BeforeEveryCall]
        {
            let engine = Engine::with_options(MemoryStore::new(), summarizing_options(answer, when));
            for _ in 0..8 {
                turn(&engine).await;
                let _ = engine.drain(Duration::from_secs(100)).await;
            }
            events.name("a summary was not made", cause);
        }
    }
}
