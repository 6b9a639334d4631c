//! One attempt to store an exchange through the layer, in chat completions.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tests::{FullStore, TypedCall, request, response_text};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextOptions, Engine, HistoryError, HistoryOptions, InConversation, Message,
    Policies, Reply, ReportHandle, SaveError, StoreError, Summaries, Unsaved,
    budget::{ContextBudget, Watermarks},
    policy::OnConflict,
    recall::{Analyzer, Gate, LogRecall, LogSearch, RecallOptions},
    report::TurnOutcome,
    store::{LoadLimit, Origin, Profile, Recorded},
    summary::{Summarizer, SummaryRequest, SummaryResponse},
    tokens::ByteEstimate,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::MockLlm;

use super::{Worker, model::SUMMARY};
use crate::{
    PROFILES,
    exchange::{Kind, Task, conversation_id, is_signed},
    intact,
    protocol::AckSource,
    rng::SeededRng,
    store::Store,
    text::{Part, read},
};

/// One caller in `LEAVES` leaves before the response is there, within `STAYS`.
const LEAVE_ONCE_IN: u64 = 50;
const MAX_STAY: Duration = Duration::from_millis(10);

/// The result of an attempt.
pub(super) enum Attempt {
    /// The exchange is in the log.
    Stored { seq: u64, source: AckSource },
    /// The exchange was refused before the model was called.
    Refused(String),
    /// The exchange may be in the log or not.
    Failed(String),
}

/// The layers that the lanes take turns in using.
pub(super) struct Layers(Vec<(ChatHistoryLayer<OpenAi>, Origin)>);

impl Layers {
    /// Creates the layers. Windows are short, so that compactions are stored often and compete: one profile
    /// uses the load limit, the other one summaries. One layer rejects conflicts, so that its exchanges are
    /// never stored after one that they do not know. Tokens are estimated, because the tables of an exact counter would
    /// be built in each of the many processes. The layers have two providers, which refuse each other's reasoning.
    pub(super) fn new(store: &Store) -> Result<Self, BoxError> {
        let limit = LoadLimit::new(24, 256 << 10)?;
        let [first, second] = PROFILES;
        let context = |profile: &str| -> Result<ContextOptions, BoxError> {
            let context = ContextOptions::new().budget(ContextBudget::unlimited()).token_counter(ByteEstimate::new());
            Ok(context.profile(Profile::new(profile)?))
        };
        let plain = HistoryOptions::new().context(context(first)?.load_limit(limit));
        let strict = plain.clone().policies(Policies::new().on_conflict(OnConflict::Reject));
        let summaries = Summaries::new(TaskSummarizer).max_tokens(100);
        let context = context(second)?.watermarks(Watermarks::last_messages(16));
        let search = LogSearch::new(Arc::<dyn FullStore>::clone(store), Analyzer::default());
        let recall = RecallOptions::new(LogRecall::from(search.gate(Gate::always_open())));
        let summarized = HistoryOptions::new().context(context).summaries(summaries).recall(recall);
        let layer = |(options, provider): (HistoryOptions, &str)| {
            let origin = Origin::unknown().provider(provider);
            let options = options.origin(origin.clone());
            (ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), options), origin)
        };
        Ok(Self([(plain, "one"), (strict, "two"), (summarized, "one")].map(layer).into()))
    }

    /// Returns a layer for a number, which may exceed the number of layers.
    fn of(&self, number: usize) -> &ChatHistoryLayer<OpenAi> {
        &self.0[number % self.0.len()].0
    }

    /// Returns the engine of a layer, and its provider.
    pub(super) fn engine(&self, number: usize) -> (&Engine, &Origin) {
        let (layer, origin) = &self.0[number % self.0.len()];
        (layer.engine(), origin)
    }

    /// Waits until all running saves are done.
    pub(super) async fn drain(&self, patience: Duration) -> Result<(), BoxError> {
        for (layer, _) in &self.0 {
            layer.engine().drain(patience).await?;
        }
        Ok(())
    }
}

impl Worker {
    /// Sends the input of an exchange. `may_be_stored` is true if it was sent before.
    pub(super) async fn attempt(
        &self,
        lane: usize,
        task: Task,
        may_be_stored: bool,
        rng: &mut SeededRng,
    ) -> Result<Attempt, BoxError> {
        if is_signed(task.conversation) {
            return self.attempt_signed(lane, task, may_be_stored, rng).await;
        }
        let layer = self.layers.of(self.args.number as usize + lane);
        let (call, report) = call(task)?.with_report();
        // A mock keeps all requests that it ever received, so each call uses a new one.
        let sent = layer.layer(MockLlm::new(self.replies.clone()).unary()).oneshot(call);
        let Some(answered) = self.may_leave(sent, rng).await else {
            return Ok(Attempt::Failed("caller left".into()));
        };
        match answered {
            Ok(response) => {
                if !task.kind.calls() && read(response_text(&response)) != Some((task, Part::Answered)) {
                    self.output.violation(format!("{} got another answer", task.name))?;
                }
                Ok(stored(report).await)
            }
            Err(error) => self.failed(task, may_be_stored, &error),
        }
    }

    /// Waits for the response of a call, unless the caller leaves before.
    pub(super) async fn may_leave<T>(&self, call: impl Future<Output = T>, rng: &mut SeededRng) -> Option<T> {
        if rng.once_in(LEAVE_ONCE_IN) {
            tokio::time::timeout(rng.duration(MAX_STAY), call).await.ok()
        } else {
            Some(call.await)
        }
    }

    /// Returns what the error of a call means for its exchange.
    pub(super) fn failed(&self, task: Task, may_be_stored: bool, error: &BoxError) -> Result<Attempt, BoxError> {
        let unsaved = error.downcast_ref::<Unsaved<tests::Response>>().map(Unsaved::reason);
        if let Some(reason) = unsaved.or_else(|| error.downcast_ref::<Unsaved<Reply>>().map(Unsaved::reason)) {
            if let SaveError::Store(error) = reason {
                self.check_transient(task, error)?;
            }
            return Ok(Attempt::Failed(format!("save {}", reason.kind())));
        }
        Ok(match error.downcast_ref() {
            Some(HistoryError::AlreadyRecorded(recorded)) => {
                self.recorded(task, may_be_stored, recorded)?;
                Attempt::Stored { seq: recorded.seq.get(), source: AckSource::Recorded }
            }
            // Another worker wrote between a call and its result.
            Some(HistoryError::Input(_)) if task.kind.continues() => Attempt::Refused("superseded".into()),
            Some(HistoryError::Load(error)) => {
                self.check_transient(task, error)?;
                Attempt::Failed(format!("load {}", error.kind()))
            }
            Some(HistoryError::LoadTimeout(_)) => Attempt::Failed("load timeout".into()),
            _ => {
                self.output.violation(format!("{} failed: {error}", task.name))?;
                Attempt::Refused("unexpected".into())
            }
        })
    }

    /// Checks that an error is transient, as all errors of this test are. Callers give up on other errors.
    fn check_transient(&self, task: Task, error: &StoreError) -> Result<(), BoxError> {
        if error.is_retryable() || matches!(error, StoreError::Conflict { .. }) {
            return Ok(());
        }
        self.output.violation(format!("{} failed with an error that is not transient: {error}", task.name))?;
        Ok(())
    }

    fn recorded(&self, task: Task, may_be_stored: bool, recorded: &Recorded) -> Result<(), BoxError> {
        match intact::task(&recorded.exchange) {
            Ok(found) if found == task && may_be_stored => Ok(()),
            Ok(found) if found == task => Err("is in the log, but was never sent".to_owned()),
            Ok(found) => Err(format!("has the exchange of {} in the log", found.name)),
            Err(what) => Err(format!("is damaged in the log: {what}")),
        }
        .or_else(|what| self.output.violation(format!("{} {what}", task.name)))?;
        Ok(())
    }
}

fn call(task: Task) -> Result<TypedCall, BoxError> {
    let text = task.text(Part::Asked);
    let input = match task.kind {
        Kind::Step | Kind::Result => Message::tool(task.name.before().call_id(), text),
        Kind::Plain | Kind::Call => Message::user(text),
    };
    Ok(InConversation::new(conversation_id(task.conversation)?, request([input])).exchange(task.name.exchange_id()?))
}

async fn stored(report: ReportHandle) -> Attempt {
    report.await.map_or_else(|| Attempt::Failed("no report".into()), |report| attempt_of(&report.outcome))
}

/// Returns what the outcome of a turn means for its exchange.
pub(super) fn attempt_of(outcome: &TurnOutcome) -> Attempt {
    match outcome {
        TurnOutcome::Stored { seq, moved, .. } => {
            Attempt::Stored { seq: seq.get(), source: if *moved { AckSource::Moved } else { AckSource::Stored } }
        }
        TurnOutcome::Duplicate { seq, .. } => Attempt::Stored { seq: seq.get(), source: AckSource::Duplicate },
        other => Attempt::Failed(other.kind().to_owned()),
    }
}

/// A summarizer whose summaries name their conversation.
#[derive(Debug)]
struct TaskSummarizer;

#[async_trait]
impl Summarizer for TaskSummarizer {
    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        // Long messages are shortened. Each of the others names its conversation.
        let read_signed = |message: &Message| message.texts().iter().find_map(|text| read(text));
        let known = |message| read_signed(message).or_else(|| read(&intact::text(message)?));
        let (task, _) = request.messages.iter().find_map(known).ok_or("no message is complete")?;
        Ok(SummaryResponse::new(format!("{SUMMARY}{}: up to {}", task.conversation, task.name)))
    }
}
