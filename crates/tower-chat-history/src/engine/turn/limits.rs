//! Checking a call against its limits: before it waits, and when it is planned.

use tower_chat_history_core::{ExchangeId, Message, Recorded, Role, Seq};

use super::{call::Call, history::LoadedHistory};
use crate::{
    call::Stored,
    context::plan::Plan,
    error::HistoryError,
    limits::{Amounts, LimitExceeded, Limits},
};

/// Checks the size of the input, and takes a call from the rates.
pub(super) fn admit(call: &Call) -> Result<(), LimitExceeded> {
    check_sizes(call)?;
    call.parts.rates.take(&call.options().limits, &call.conversation)
}

/// Checks a call with an exchange id of the caller before it waits or loads anything: the size of the input, and the
/// rates, from which nothing is taken yet. If the call exceeds one of them, only its exchange is looked up, because a
/// call that is repeated is answered from the log, whatever the limits are.
pub(super) async fn check_named(call: &Call, exchange: &ExchangeId) -> Result<(), HistoryError> {
    let checked = check_sizes(call).and_then(|()| call.parts.rates.check(&call.options().limits, &call.conversation));
    let Err(exceeded) = checked else { return Ok(()) };

    match call.store().recorded(&call.conversation, call.dialect, exchange).await? {
        Some(recorded) => Err(HistoryError::AlreadyRecorded(recorded)),
        None => Err(exceeded.into()),
    }
}

fn check_sizes(call: &Call) -> Result<(), LimitExceeded> {
    let Some(limits) = limits(call) else { return Ok(()) };
    let mut amounts = Amounts::of_input(&call.input);
    if let Some(messages) = call.instead() {
        let instead = Amounts::of_input(messages);
        amounts.message_bytes = amounts.message_bytes.max(instead.message_bytes);
        amounts.input_bytes = amounts.input_bytes.max(instead.input_bytes);
    }
    limits.check(&amounts)
}

/// Checks the planned call: the tool rounds of its turn, the size of the conversation, and, if the conversation does
/// not exist yet, the number of conversations.
pub(super) async fn check_plan(call: &Call, loaded: &LoadedHistory, plan: &Plan) -> Result<(), HistoryError> {
    if let Some(limits) = limits(call) {
        let exchanges = loaded.window.as_ref().map_or(&[][..], |window| &window.exchanges);
        let tool_rounds = rounds(exchanges, plan.continues) + rounds_in(&call.input);
        limits.check(&Amounts { tool_rounds, ..Amounts::default() })?;

        // A turn that began below the limits of the conversation is finished: its replies were paid for.
        if plan.continues.is_none() {
            limits.check(&conversation_with_input(call, loaded))?;
        }
    }

    match &call.options().conversation_quota {
        Some(quota) if loaded.is_absent() && !call.stores_nothing() => {
            let counted = Box::pin(async { quota.exceeded_by(&call.conversation).await });
            let exceeded = call.store().bounded(counted).await?;
            exceeded.map_or(Ok(()), |exceeded| Err(exceeded.into()))
        }
        _ => Ok(()),
    }
}

/// Returns the size of the conversation with what this call stores, without the reply. It is 0 if the call stores
/// nothing, or if the history could not be loaded.
fn conversation_with_input(call: &Call, loaded: &LoadedHistory) -> Amounts {
    let added = match &call.stored {
        Stored::Exchange => Amounts::of_input(&call.input).input_bytes,
        Stored::Instead(messages) => Amounts::of_input(messages).input_bytes,
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

fn limits(call: &Call) -> Option<&Limits> {
    call.options().limits.of(&call.conversation)
}

/// Returns the number of rounds of tool calls from the question on, in the exchanges that an input continues. Each
/// exchange continues the one whose calls it answers.
fn rounds(exchanges: &[Recorded], continues: Option<Seq>) -> u64 {
    let mut rounds = 0;
    let mut at = continues;
    while let Some(seq) = at {
        let found = exchanges.binary_search_by_key(&seq, |recorded| recorded.seq).ok();
        let Some(recorded) = found.and_then(|found| exchanges.get(found)) else { break };
        rounds += rounds_in(&recorded.exchange.messages);
        at = recorded.exchange.continues.filter(|earlier| *earlier < seq);
    }
    rounds
}

/// Returns the number of rounds of tool calls after the last question of these messages, or in all of them if they
/// have no question. A reply that the provider paused has no calls for the caller, so it is no round.
fn rounds_in(messages: &[Message]) -> u64 {
    let mut rounds = 0;
    let mut is_calling = false;
    for message in messages {
        if !message.tool_calls().is_empty() {
            rounds += u64::from(!is_calling);
            is_calling = true;
        } else if !message.answers().is_empty() {
            is_calling = false;
        } else if *message.role() == Role::User {
            rounds = 0;
            is_calling = false;
        }
    }
    rounds
}
