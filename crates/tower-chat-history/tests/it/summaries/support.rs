//! A summarizer that keeps facts, and a conversation for it.

#![allow(unreachable_pub)] // Each test module uses a part of it.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tower_chat_history::{
    BoxError, ContextBudget, ContextOptions, ConversationId, Engine, HistoryOptions, HistoryStore,
    HistoryStoreExt as _, Message, Reply, Turn, TurnInput, TurnReport,
    summary::{Summaries, Summarizer, SummaryReport, SummaryRequest, SummaryResponse},
};
use tower_chat_history_test::check_chat_rules;

/// The failure of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Error,
    Hang,
    Empty,
    Longer,
    CutOff,
}

/// Keeps only the words that begin with `fact-`, so its answer depends only on its input.
#[derive(Clone, Default)]
pub struct Facts {
    calls: Arc<AtomicUsize>,
    takes: Duration,
    fault: Option<Arc<dyn Fn(usize) -> Fault + Send + Sync>>,
    pub requests: Arc<Mutex<Vec<SummaryRequest>>>,
}

impl Facts {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn taking(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }

    /// Sets the failures, by the number of the call.
    pub fn failing(mut self, fault: impl Fn(usize) -> Fault + Send + Sync + 'static) -> Self {
        self.fault = Some(Arc::new(fault));
        self
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Summarizer for Facts {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.requests.lock().unwrap().push(request.clone());
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        let texts = request.messages.iter().map(|message| message.text().into_owned());
        let mut facts = Vec::new();
        for text in request.previous.into_iter().chain(texts) {
            for word in text.split_whitespace().filter(|word| word.starts_with("fact-")) {
                if !facts.contains(&word.to_owned()) {
                    facts.push(word.to_owned());
                }
            }
        }
        let kept = format!("known: {}", facts.join(" "));
        match self.fault.as_ref().map_or(Fault::None, |fault| fault(call)) {
            Fault::None => Ok(SummaryResponse::new(kept)),
            Fault::Error => Err("the summarizer is down".into()),
            Fault::Hang => std::future::pending().await,
            Fault::Empty => Ok(SummaryResponse::new(" \n")),
            Fault::Longer => Ok(SummaryResponse::new("long ".repeat(10_000))),
            Fault::CutOff => {
                let mut cut = SummaryResponse::new(kept);
                cut.finished = false;
                Ok(cut)
            }
        }
    }
}

pub fn id() -> ConversationId {
    ConversationId::new(["tests", "summaries"]).unwrap()
}

/// Returns context options with a budget of 600 tokens, counted by bytes.
pub fn context() -> ContextOptions {
    ContextBudget::tokens(600).reply_reserve(100).calibrate(false).into()
}

/// Returns options with this [context], and room for a summary of 60 tokens.
pub fn options(summaries: Summaries) -> HistoryOptions {
    HistoryOptions::new().context(context()).summaries(summaries.max_tokens(60).chunk_tokens(400))
}

/// Runs a turn of about 50 tokens. Asserts that its context is valid and within the budget.
pub async fn turn(engine: &Engine, text: &str) -> (Vec<Message>, Arc<TurnReport>) {
    let turn = begin(engine, text).await;
    let context = turn.context().to_vec();
    let report = turn.commit(Reply::new(Message::assistant("a".repeat(80)))).await.unwrap();
    (context, report)
}

pub async fn begin(engine: &Engine, text: &str) -> Turn {
    let turn = engine.begin(TurnInput::new(id(), [Message::user(format!("{text} {}", "u".repeat(80)))])).await.unwrap();
    check_chat_rules(turn.context()).unwrap();
    turn
}

/// Returns whether a prompt contains the word.
pub fn mentions(context: &[Message], word: &str) -> bool {
    context.iter().any(|message| message.text().split_whitespace().any(|other| other == word))
}

pub async fn log_len(store: &dyn HistoryStore) -> usize {
    store.conversation(&id()).exchanges().await.unwrap().len()
}

/// Collects the reports of summaries.
#[derive(Clone, Default)]
pub struct CollectedReports(Arc<Mutex<Vec<SummaryReport>>>);

impl CollectedReports {
    pub fn hook(&self) -> impl Fn(&SummaryReport) + Send + Sync + use<> {
        let collected = Arc::clone(&self.0);
        move |report| collected.lock().unwrap().push(report.clone())
    }

    pub fn all(&self) -> Vec<SummaryReport> {
        self.0.lock().unwrap().clone()
    }
}
