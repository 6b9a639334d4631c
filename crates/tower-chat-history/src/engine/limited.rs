//! Checking calls against limits.

use tower_chat_history_core::{Message, Recorded, Seq};

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
    /// Checks the size of the input, and takes a turn from the rates.
    pub(super) fn admit(&self) -> Result<(), LimitExceeded> {
        let Some((rule, limits)) = self.engine.options().limits.numbered(&self.conversation) else { return Ok(()) };
        let mut amounts = sizes(&self.input);
        if let Stored::Instead(messages) = &self.stored {
            let instead = sizes(messages);
            amounts.message_bytes = amounts.message_bytes.max(instead.message_bytes);
            amounts.input_bytes = amounts.input_bytes.max(instead.input_bytes);
        }
        limits.check(&amounts)?;
        self.engine.shared.rates.take(rule, &self.conversation)
    }

    /// Checks the size of the conversation, or, if it does not exist yet, the number of conversations.
    pub(super) async fn check_conversation(&self, loaded: &LoadedHistory) -> Result<(), HistoryError> {
        let added = match &self.stored {
            Stored::Exchange => sizes(&self.input).input_bytes,
            Stored::Instead(messages) => sizes(messages).input_bytes,
            Stored::Nothing => return Ok(()),
        };
        if let (true, Some(quota)) = (loaded.is_absent(), &self.engine.options().conversation_quota) {
            let counted = async { quota.exceeded_by(&self.conversation).await };
            if let Some(exceeded) = self.engine.bounded_store().bounded(counted).await? {
                return Err(exceeded.into());
            }
        }
        let (exchanges, bytes) = match &loaded.window {
            Some(window) => (window.revision.len(), window.log_bytes),
            None if loaded.is_absent() => (0, 0),
            // The history could not be loaded.
            None => return Ok(()),
        };
        let amounts = Amounts {
            exchanges: exchanges.saturating_add(1),
            conversation_bytes: bytes.saturating_add(added),
            ..Amounts::default()
        };
        self.limits().map_or(Ok(()), |limits| Ok(limits.check(&amounts)?))
    }

    /// Checks the number of tool rounds of the turn that the input continues.
    pub(super) fn check_rounds(&self, loaded: &LoadedHistory, turn: &PlannedTurn) -> Result<(), LimitExceeded> {
        let (Some(limits), Some(window), Some(continues)) = (self.limits(), &loaded.window, turn.plan.continues) else {
            return Ok(());
        };
        limits.check(&Amounts { tool_rounds: rounds(&window.exchanges, continues), ..Amounts::default() })
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

/// Returns the number of rounds from the question on, of which the last one is answered by an input that continues the
/// exchange at this position. Each exchange continues the one whose calls it answers.
fn rounds(exchanges: &[Recorded], continues: Seq) -> u64 {
    let (mut rounds, mut at) = (0, Some(continues));
    while let Some(seq) = at {
        rounds += 1;
        let found = exchanges.binary_search_by_key(&seq, |recorded| recorded.seq);
        let earlier = found.ok().and_then(|found| exchanges.get(found)?.exchange.continues);
        at = earlier.filter(|earlier| *earlier < seq);
    }
    rounds
}
