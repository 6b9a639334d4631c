//! Runs recorded conversations through the layer.

use std::{io, time::Duration};

use serde::Serialize;
use serde_json::Value;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryError, HistoryStoreExt as _, InConversation,
    MemoryStore, adapt::Json, report::TurnTokens,
};

use super::{
    model::Model,
    policy::{Ledger, Policy, SummaryCost},
    recording::{Call, Recording},
};

/// The timeout for summaries. Extracts need far less.
const DRAIN: Duration = Duration::from_secs(60);

/// The result of one call.
#[derive(Debug, Serialize)]
pub(crate) struct CallResult<'a> {
    pub(crate) conversation: &'a str,
    /// The number of the call in its conversation, from 1.
    pub(crate) call: usize,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Sent(Tokens),
    /// The call was not made: no prompt of it fits, or the recording breaks the chat rules.
    Skipped {
        infeasible: bool,
        error: String,
    },
}

/// The sizes of one prompt, in tokens unless stated otherwise.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Tokens {
    /// The prompt before messages were left out.
    pub(crate) before: u64,
    /// The prompt that the model received.
    pub(crate) sent: u64,
    /// The part of `sent` that is a prefix of an earlier prompt.
    pub(crate) cached: u64,
    pub(crate) limit: u64,
    /// The summary in the prompt, as counted by the layer.
    pub(crate) summary: u64,
    /// True if the call waited for a summary.
    pub(crate) waited: bool,
    /// The messages that are shown again for this call.
    pub(crate) recalled: u64,
    pub(crate) evicted: u64,
    pub(crate) evicted_messages: usize,
    /// The tokens that are reserved for the reply.
    pub(crate) reserve: u64,
    /// True if a compaction was stored, so that later calls start from the smaller window.
    pub(crate) compacted: bool,
    /// True if this call left out more than later calls will.
    pub(crate) for_this_call: bool,
}

/// The sums of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub(crate) conversations: usize,
    /// Calls that were made.
    pub(crate) requests: usize,
    /// Calls for which no prompt fits.
    pub(crate) infeasible: usize,
    /// Calls whose recording breaks the chat rules.
    pub(crate) malformed: usize,
    pub(crate) compactions: usize,
    pub(crate) input_tokens: u64,
    pub(crate) cached_tokens: u64,
    /// Calls that waited for a summary.
    pub(crate) waited: usize,
    /// Calls whose prompt shows earlier messages again.
    pub(crate) recalled: usize,
    /// The recalled messages of these calls, in tokens.
    pub(crate) recalled_tokens: u64,
    pub(crate) summaries: SummaryCost,
}

/// Replays all recordings in order and passes the result of each call to `show`.
pub(crate) async fn replay(
    recordings: &[Recording],
    policy: &Policy,
    mut show: impl FnMut(&CallResult<'_>) -> io::Result<()>,
) -> Result<Totals, BoxError> {
    let model = Model::new(policy);
    let ledger = Ledger::default();
    let mut totals = Totals { conversations: recordings.len(), ..Totals::default() };
    for (recording, number) in recordings.iter().zip(1_u64..) {
        let id = ConversationId::new(["replay", &number.to_string()])?;
        let store = MemoryStore::new();
        let options = policy.options(recording.head(), &store, &ledger);
        let layer = ChatHistoryLayer::with_options(store, Json::new(), options);
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
            show(&CallResult { conversation: &recording.id, call: number, outcome })?;
        }
        conversation.drain().await?;
    }

    totals.summaries = ledger.sum();
    Ok(totals)
}

/// One conversation through the layer.
struct Conversation {
    chat: ChatHistory<Model, Json>,
    id: ConversationId,
}

impl Conversation {
    async fn ask(&mut self, call: &Call) -> Result<Outcome, BoxError> {
        let (request, report) = InConversation::new(self.id.clone(), Model::request(call)).with_report();

        let error = match self.chat.ready().await?.call(request).await {
            Ok(response) => {
                let report = report.await.ok_or("the call has no report")?;
                let tokens = report.tokens.ok_or("the call has no budget")?;
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

    /// Waits for the summary in progress, and for preparations of recall.
    async fn drain(&self) -> Result<(), BoxError> {
        Ok(self.chat.engine().drain(DRAIN).await?)
    }

    /// Stores the recorded exchange, as if the call had been made.
    async fn import(&self, call: &Call) -> Result<(), BoxError> {
        let exchange = call.input.iter().chain([&call.reply]).cloned();
        self.chat.engine().store().conversation(&self.id).import(exchange).await?;
        Ok(())
    }
}

impl Tokens {
    fn of(counted: &TurnTokens, response: &Value) -> Result<Self, BoxError> {
        let (sent, cached) = Model::usage(response).ok_or("the response has no usage")?;
        Ok(Self {
            before: sent + counted.evicted_tokens,
            sent,
            cached,
            limit: counted.limit,
            summary: counted.prompt.summary,
            waited: false,
            recalled: counted.prompt.recalled,
            evicted: counted.evicted_tokens,
            evicted_messages: counted.evicted_messages,
            reserve: counted.reply_limit.map_or(counted.reply_reserve, u64::from),
            compacted: counted.compacted,
            for_this_call: counted.for_this_call,
        })
    }
}

impl CallResult<'_> {
    /// Returns the sizes, if the call was made.
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
                self.cached_tokens += tokens.cached;
                self.waited += usize::from(tokens.waited);
                self.recalled += usize::from(tokens.recalled > 0);
                self.recalled_tokens += tokens.recalled;
            }
            Outcome::Skipped { infeasible: true, .. } => self.infeasible += 1,
            Outcome::Skipped { infeasible: false, .. } => self.malformed += 1,
        }
    }

    /// Returns the price of the input and of all summaries, in uncached input tokens.
    #[allow(clippy::cast_precision_loss)] // Token counts are far below 2^52.
    pub(crate) fn cost(&self, cached_price: f64) -> f64 {
        (self.input_tokens - self.cached_tokens + self.summaries.cost()) as f64
            + cached_price * self.cached_tokens as f64
    }
}
