//! Checking calls against limits.

use tower_chat_history_core::{ExchangeId, Message, Recorded, Role, Seq};

use super::{
    Engine, ToolResults,
    turn::{Call, LoadedHistory, PlannedTurn},
};
use crate::{
    call::Stored,
    error::HistoryError,
    limits::{Amounts, LimitExceeded, Limits},
};

impl Call {
    /// Checks the size of the input, and takes a call from the rates.
    pub(super) fn admit(&self) -> Result<(), LimitExceeded> {
        self.check_sizes()?;
        self.engine.shared.rates.take(&self.engine.options().limits, &self.conversation)
    }

    /// Checks a call with an exchange id of the caller before it waits or loads anything: the size of the input, and
    /// the rates, from which nothing is taken yet. If the call exceeds one of them, only its exchange is looked up,
    /// because a call that is repeated is answered from the log, whatever the limits are.
    pub(super) async fn check_named(&self, exchange: &ExchangeId) -> Result<(), HistoryError> {
        let rates = || self.engine.shared.rates.check(&self.engine.options().limits, &self.conversation);
        let Err(exceeded) = self.check_sizes().and_then(|()| rates()) else { return Ok(()) };
        let found = self.engine.bounded_store().recorded(&self.conversation, self.dialect, exchange);
        Err(match found.await? {
            Some(recorded) => HistoryError::AlreadyRecorded(recorded),
            None => exceeded.into(),
        })
    }

    fn check_sizes(&self) -> Result<(), LimitExceeded> {
        let Some(limits) = self.limits() else { return Ok(()) };
        let mut amounts = sizes(&self.input);
        if let Stored::Instead(messages) = &self.stored {
            let instead = sizes(messages);
            amounts.message_bytes = amounts.message_bytes.max(instead.message_bytes);
            amounts.input_bytes = amounts.input_bytes.max(instead.input_bytes);
        }
        limits.check(&amounts)
    }

    /// Checks the planned call: the tool rounds of its turn, the size of the conversation, and, if the conversation
    /// does not exist yet, the number of conversations.
    pub(super) async fn check_planned(&self, loaded: &LoadedHistory, turn: &PlannedTurn) -> Result<(), HistoryError> {
        if let Some(limits) = self.limits() {
            let (exchanges, continues) = (loaded.window.as_ref().map(|window| &*window.exchanges), turn.plan.continues);
            let tool_rounds = rounds(exchanges.unwrap_or_default(), continues) + rounds_in(&self.input);
            limits.check(&Amounts { tool_rounds, ..Amounts::default() })?;
            // A turn that began below the limits of the conversation is finished: its replies were paid for.
            if continues.is_none() {
                limits.check(&self.conversation_with_input(loaded))?;
            }
        }
        match &self.engine.options().conversation_quota {
            Some(quota) if loaded.is_absent() && !matches!(self.stored, Stored::Nothing) => {
                // Boxed, so that calls without a quota do not pay for the size of this future.
                let counted = async { Box::pin(quota.exceeded_by(&self.conversation)).await };
                let exceeded = self.engine.bounded_store().bounded(counted).await?;
                exceeded.map_or(Ok(()), |exceeded| Err(exceeded.into()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the size of the conversation with what this call stores, without the reply. It is 0 if the call stores
    /// nothing, or if the history could not be loaded.
    fn conversation_with_input(&self, loaded: &LoadedHistory) -> Amounts {
        let added = match &self.stored {
            Stored::Exchange => sizes(&self.input).input_bytes,
            Stored::Instead(messages) => sizes(messages).input_bytes,
            Stored::Nothing => return Amounts::default(),
        };
        let (exchanges, bytes) = match &loaded.window {
            Some(window) => (window.revision.len(), window.log_bytes),
            None if loaded.is_absent() => (0, 0),
            None => return Amounts::default(),
        };
        Amounts {
            exchanges: exchanges.saturating_add(1),
            conversation_bytes: bytes.saturating_add(added),
            ..Amounts::default()
        }
    }

    fn limits(&self) -> Option<&Limits> {
        self.engine.options().limits.of(&self.conversation)
    }
}

impl Engine {
    /// Checks the size of tool results that are stored without a call of the model.
    pub(super) fn check_results(&self, results: &ToolResults) -> Result<(), LimitExceeded> {
        let limits = self.options().limits.of(&results.conversation);
        limits.map_or(Ok(()), |limits| limits.check(&sizes(&results.results)))
    }
}

fn sizes(messages: &[Message]) -> Amounts {
    let bytes = || messages.iter().map(|message| message.bytes() as u64);
    Amounts { message_bytes: bytes().max().unwrap_or_default(), input_bytes: bytes().sum(), ..Amounts::default() }
}

/// Returns the number of rounds of tool calls from the question on, in the exchanges that an input continues. Each
/// exchange continues the one whose calls it answers.
fn rounds(exchanges: &[Recorded], continues: Option<Seq>) -> u64 {
    let (mut rounds, mut at) = (0, continues);
    while let Some(seq) = at {
        let found = exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok();
        let Some(exchange) = found.and_then(|found| exchanges.get(found)).map(|recorded| &recorded.exchange) else {
            break;
        };
        rounds += rounds_in(&exchange.messages);
        at = exchange.continues.filter(|earlier| *earlier < seq);
    }
    rounds
}

/// Returns the number of rounds of tool calls after the last question of these messages, or in all of them if they
/// have no question. A reply that the provider paused has no calls for the caller, so it is no round.
fn rounds_in(messages: &[Message]) -> u64 {
    let (mut rounds, mut is_calling) = (0, false);
    for message in messages {
        if !message.tool_calls().is_empty() {
            rounds += u64::from(!is_calling);
            is_calling = true;
        } else if !message.answers().is_empty() {
            is_calling = false;
        } else if *message.role() == Role::User {
            (rounds, is_calling) = (0, false);
        }
    }
    rounds
}
