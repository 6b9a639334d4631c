//! One attempt to have an exchange stored, through the layer.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tests::{Asked, answer, request};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ContextOptions, HistoryError, HistoryOptions, HistoryStore, InConversation, Message,
    Policies, ReportHandle, SaveError, StoreError, Summaries, Unsaved,
    budget::{ContextBudget, Watermarks},
    policy::OnConflict,
    report::Outcome,
    store::{LoadLimit, Profile, Recorded},
    summary::{Summarized, Summarizer, SummaryRequest},
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::MockLlm;

use super::{Worker, model::SUMMARY};
use crate::{
    PROFILES,
    chance::Chance,
    exchange::{Kind, Part, Task, conversation_id, read},
    protocol::How,
    whole,
};

/// One caller in so many leaves before the answer is there, and how long it stays at most.
const LEAVES: u64 = 50;
const STAYS: Duration = Duration::from_millis(10);

/// What came of an attempt.
pub(super) enum Attempt {
    /// The exchange is in the log.
    Stored { seq: u64, how: How },
    /// It was refused, before the model was called.
    Refused(String),
    /// It may be in the log or not.
    Failed(String),
}

/// The layers that the lanes use in turn.
pub(super) struct Doors(Vec<ChatHistoryLayer<OpenAi>>);

impl Doors {
    /// Windows are short, so that compactions are stored all the time, and race: by the load limit in one profile, by summaries
    /// in the other. One door does not let an exchange land behind another one.
    pub(super) fn new(store: &Arc<dyn HistoryStore>) -> Result<Self, BoxError> {
        let limit = LoadLimit::new(24, 256 << 10)?;
        let [first, second] = PROFILES;
        let context = |profile: &str| -> Result<ContextOptions, BoxError> {
            Ok(ContextOptions::new().budget(ContextBudget::unlimited()).profile(Profile::new(profile)?))
        };
        let plain = HistoryOptions::new().context(context(first)?.load_limit(limit));
        let strict = plain.clone().policies(Policies::new().on_conflict(OnConflict::Reject));
        let summaries = Summaries::new(Briefly).max_tokens(100);
        let context = context(second)?.watermarks(Watermarks::last_messages(16));
        let summarized = HistoryOptions::new().context(context).summaries(summaries);
        let layer = |options| ChatHistoryLayer::with_options(Arc::clone(store), OpenAi::new(), options);
        Ok(Self([plain, strict, summarized].map(layer).into()))
    }

    /// The door of that number: there are more numbers than doors.
    fn of(&self, number: usize) -> &ChatHistoryLayer<OpenAi> {
        &self.0[number % self.0.len()]
    }

    /// Finishes what is under way.
    pub(super) async fn drain(&self, patience: Duration) -> Result<(), BoxError> {
        for layer in &self.0 {
            layer.engine().drain(patience).await?;
        }
        Ok(())
    }
}

impl Worker {
    /// Sends the exchange's input. `may_be_stored` says whether it was sent before.
    pub(super) async fn attempt(
        &self,
        lane: usize,
        task: Task,
        may_be_stored: bool,
        chance: &mut Chance,
    ) -> Result<Attempt, BoxError> {
        let layer = self.doors.of(self.args.number as usize + lane);
        let (call, report) = call(task)?.with_report();
        // A mock remembers all requests that it ever got, so each call has its own.
        let sent = layer.layer(MockLlm::new(self.replies.clone()).unary()).oneshot(call);
        let answered = if chance.once_in(LEAVES) {
            match tokio::time::timeout(chance.time(STAYS), sent).await {
                Ok(answered) => answered,
                Err(_) => return Ok(Attempt::Failed("caller left".into())),
            }
        } else {
            sent.await
        };
        match answered {
            Ok(response) => {
                if task.kind != Kind::Call && read(answer(&response)) != Some((task, Part::Answered)) {
                    self.output.violation(format!("{} got another answer", task.name))?;
                }
                Ok(stored(report).await)
            }
            Err(error) => self.failed(task, may_be_stored, &error),
        }
    }

    fn failed(&self, task: Task, may_be_stored: bool, error: &BoxError) -> Result<Attempt, BoxError> {
        if let Some(error) = error.downcast_ref::<Unsaved<tests::Response>>() {
            if let SaveError::Store(error) = error.reason() {
                self.must_pass(task, error)?;
            }
            return Ok(Attempt::Failed(format!("save {}", error.reason().kind())));
        }
        Ok(match error.downcast_ref() {
            Some(HistoryError::AlreadyRecorded(recorded)) => {
                self.recorded(task, may_be_stored, recorded)?;
                Attempt::Stored { seq: recorded.seq.get(), how: How::Recorded }
            }
            // Somebody else spoke between a call and its result.
            Some(HistoryError::Input(_)) if task.kind == Kind::Result => Attempt::Refused("superseded".into()),
            Some(HistoryError::Load(error)) => {
                self.must_pass(task, error)?;
                Attempt::Failed(format!("load {}", error.kind()))
            }
            Some(HistoryError::LoadTimeout(_)) => Attempt::Failed("load timeout".into()),
            _ => {
                self.output.violation(format!("{} failed: {error}", task.name))?;
                Attempt::Refused("unexpected".into())
            }
        })
    }

    /// Whatever happens here may pass, and a store that says otherwise has its callers give up.
    fn must_pass(&self, task: Task, error: &StoreError) -> Result<(), BoxError> {
        if error.is_retryable() || matches!(error, StoreError::Conflict { .. }) {
            return Ok(());
        }
        self.output.violation(format!("{} met an error that will not pass: {error}", task.name))?;
        Ok(())
    }

    fn recorded(&self, task: Task, may_be_stored: bool, recorded: &Recorded) -> Result<(), BoxError> {
        match whole::task(&recorded.exchange) {
            Ok(found) if found == task && may_be_stored => Ok(()),
            Ok(found) if found == task => Err("is answered from the log, but was never sent".to_owned()),
            Ok(found) => Err(format!("is answered by {}", found.name)),
            Err(what) => Err(format!("is answered from a broken log: {what}")),
        }
        .or_else(|what| self.output.violation(format!("{} {what}", task.name)))?;
        Ok(())
    }
}

fn call(task: Task) -> Result<Asked, BoxError> {
    let text = task.text(Part::Asked);
    let input = match task.kind {
        Kind::Result => Message::tool(task.name.before().call_id(), text),
        Kind::Plain | Kind::Call => Message::user(text),
    };
    Ok(InConversation::new(conversation_id(task.conversation)?, request([input])).exchange(task.name.exchange_id()?))
}

async fn stored(report: ReportHandle) -> Attempt {
    let Some(report) = report.await else { return Attempt::Failed("no report".into()) };
    match &report.outcome {
        Outcome::Stored { seq, moved, .. } => {
            Attempt::Stored { seq: seq.get(), how: if *moved { How::Moved } else { How::Stored } }
        }
        Outcome::Duplicate { seq, .. } => Attempt::Stored { seq: seq.get(), how: How::Duplicate },
        other => Attempt::Failed(other.kind().to_owned()),
    }
}

/// Makes summaries that say whose they are.
#[derive(Debug)]
struct Briefly;

#[async_trait]
impl Summarizer for Briefly {
    async fn summarize(&self, request: SummaryRequest) -> Result<Summarized, BoxError> {
        // Some were shortened; of the others each knows where it belongs.
        let known = request.messages.iter().find_map(|message| read(&whole::text(message)?));
        let (task, _) = known.ok_or("no message is whole")?;
        Ok(Summarized::new(format!("{SUMMARY}{}: up to {}", task.conversation, task.name)))
    }
}
