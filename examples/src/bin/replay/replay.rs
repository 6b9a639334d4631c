//! Recorded conversations, through the layer once more.

use std::{io, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryError, HistoryStoreExt as _, InConversation,
    MemoryStore, TurnTokens, adapt::Json,
};

use super::{
    model::Model,
    policy::Policy,
    recording::{Call, Recording},
    summaries::{Ledger, Spent},
};

/// The extracts take no time.
const DRAIN: Duration = Duration::from_secs(60);

/// What became of one call.
#[derive(Debug, Serialize)]
pub(crate) struct Replayed<'a> {
    pub(crate) conversation: &'a str,
    /// Which of the conversation's calls, from 1.
    pub(crate) call: usize,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Sent(Tokens),
    /// It was not made: no prompt of it fits, or it breaks the rules of the format.
    Skipped {
        infeasible: bool,
        error: String,
    },
}

/// What was counted of one prompt, in tokens but where it says otherwise.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tokens {
    /// With all that earlier compactions left of the window.
    pub(crate) before: u64,
    /// What the model received.
    pub(crate) sent: u64,
    /// What of it was the beginning of an earlier prompt.
    pub(crate) warm: u64,
    pub(crate) limit: u64,
    /// What the layer counted for the summary.
    pub(crate) summary: u64,
    /// Whether the call waited for a summary.
    pub(crate) waited: bool,
    pub(crate) evicted: u64,
    pub(crate) evicted_messages: usize,
    /// What remains for the reply.
    pub(crate) reserve: u64,
    /// Whether the next calls begin with less.
    pub(crate) compacted: bool,
    /// Whether the next calls begin with more than this one has.
    pub(crate) for_this_call: bool,
}

/// A run's sums.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub(crate) conversations: usize,
    /// Calls that were made.
    pub(crate) requests: usize,
    /// Calls of which no prompt fits.
    pub(crate) infeasible: usize,
    /// Calls that broke the rules of the format when they were recorded.
    pub(crate) malformed: usize,
    pub(crate) compactions: usize,
    pub(crate) input_tokens: u64,
    pub(crate) warm_tokens: u64,
    /// Calls that waited for a summary.
    pub(crate) waited: usize,
    pub(crate) summaries: Spent,
}

/// Replays all of them in order, and shows what becomes of each call.
pub(crate) async fn replay(
    recordings: &[Recording],
    policy: &Policy,
    mut show: impl FnMut(&Replayed<'_>) -> io::Result<()>,
) -> Result<Totals, BoxError> {
    let (model, ledger) = (Model::new(policy), Ledger::default());
    let mut totals = Totals { conversations: recordings.len(), ..Totals::default() };
    for (recording, number) in recordings.iter().zip(1_u64..) {
        let id = ConversationId::new(["replay", &number.to_string()])?;
        let options = policy.options(recording.head(), &ledger);
        let layer = ChatHistoryLayer::with_options(MemoryStore::new(), Json::new(), options);
        let mut conversation = Conversation { chat: layer.layer(model.clone()), id };
        for (call, number) in recording.calls.iter().zip(1..) {
            if call.input.is_empty() {
                conversation.import(call).await?;
                continue;
            }
            let outcome = conversation.ask(call).await?;
            if !policy.back_to_back {
                conversation.drain().await?;
            }
            totals.add(&outcome);
            show(&Replayed { conversation: &recording.id, call: number, outcome })?;
        }
        conversation.drain().await?;
    }
    totals.summaries = ledger.spent();
    Ok(totals)
}

/// One conversation with the model.
struct Conversation {
    chat: ChatHistory<Model, Json>,
    id: ConversationId,
}

impl Conversation {
    async fn ask(&mut self, call: &Call) -> Result<Outcome, BoxError> {
        let (request, report) = InConversation::new(self.id.clone(), Model::request(call)).with_report();
        let error = match self.chat.ready().await?.call(request).await {
            Ok(response) => {
                let report = report.await.ok_or("a call without a report")?;
                let tokens = report.tokens.ok_or("a call without a budget")?;
                let waited = report.summary.is_some();
                return Ok(Outcome::Sent(Tokens { waited, ..Tokens::of(&tokens, &response)? }));
            }
            Err(error) => error,
        };
        let infeasible = match error.downcast_ref() {
            Some(HistoryError::DoesNotFit(_)) => true,
            Some(HistoryError::Input(_)) => false,
            _ => return Err(error),
        };
        self.import(call).await?;
        Ok(Outcome::Skipped { infeasible, error: error.to_string() })
    }

    /// Finishes the summary that is being made.
    async fn drain(&self) -> Result<(), BoxError> {
        Ok(self.chat.engine().drain(DRAIN).await?)
    }

    /// Stores what was recorded, as if the call had been made.
    async fn import(&self, call: &Call) -> Result<(), BoxError> {
        let exchange = call.input.iter().chain([&call.reply]).cloned();
        self.chat.engine().store().conversation(&self.id).import(exchange).await?;
        Ok(())
    }
}

impl Tokens {
    fn of(counted: &TurnTokens, response: &Value) -> Result<Self, BoxError> {
        let (sent, warm) = Model::usage(response).ok_or("a response without usage")?;
        Ok(Self {
            before: sent + counted.evicted_tokens,
            sent,
            warm,
            limit: counted.limit,
            summary: counted.prompt.summary,
            waited: false,
            evicted: counted.evicted_tokens,
            evicted_messages: counted.evicted_messages,
            reserve: counted.reply_limit.map_or(counted.reply_reserve, u64::from),
            compacted: counted.compacted,
            for_this_call: counted.for_this_call,
        })
    }
}

impl Replayed<'_> {
    /// What was counted, if the call was made.
    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        match &self.outcome {
            Outcome::Sent(tokens) => Some(tokens),
            Outcome::Skipped { .. } => None,
        }
    }
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Sent(tokens) => {
                self.requests += 1;
                self.compactions += usize::from(tokens.compacted);
                self.input_tokens += tokens.sent;
                self.warm_tokens += tokens.warm;
                self.waited += usize::from(tokens.waited);
            }
            Outcome::Skipped { infeasible: true, .. } => self.infeasible += 1,
            Outcome::Skipped { infeasible: false, .. } => self.malformed += 1,
        }
    }

    /// The price of the input and of all summaries, in cold tokens.
    #[allow(clippy::cast_precision_loss)] // Tokens are few.
    pub(crate) fn cost(&self, cached_price: f64) -> f64 {
        (self.input_tokens - self.warm_tokens + self.summaries.cost()) as f64 + cached_price * self.warm_tokens as f64
    }
}
