//! Clearing old results.

use tower_chat_history_core::{Message, Seq, ToolCall};

use super::{
    fit::FitBudget,
    fold::{Item, Round},
};
use crate::budget::ClearResults;

/// Clears the results of all rounds that stand before a position with what follows them.
pub(super) fn apply(items: &mut [Item], clear: &ClearResults, budget: &FitBudget<'_>, before: Seq) {
    let cleared: Vec<(usize, Message)> =
        clearable(items, clear, budget, Seq::FIRST, before).map(|(at, message, _)| (at, message)).collect();
    for (at, message) in cleared {
        items[at].message = message;
    }
}

/// The position, `from` or behind it, before which results are cleared to gain that many tokens, or as many as can be.
///
/// Results are cleared with what follows their round: those at the end of the log never, since the next exchange may
/// add to them. `end` is the position of that exchange.
pub(super) fn position(
    items: &[Item],
    clear: &ClearResults,
    budget: &FitBudget<'_>,
    (from, end): (Seq, Seq),
    wanted: u64,
) -> Seq {
    let is_result = |item: &&Item| item.message.is_tool_result();
    let rounds: Vec<Round> = items.iter().filter(is_result).filter_map(|item| item.round).collect();
    // The round of the oldest result that is kept.
    let kept = rounds.len().checked_sub(clear.keep).and_then(|at| rounds.get(at).copied());
    let end = match kept {
        Some(kept) => kept.followed.min(end),
        None if clear.keep == 0 => end,
        None => return from,
    };
    let (mut position, mut gained) = (from, 0_u64);
    for (at, _, gain) in clearable(items, clear, budget, from, end) {
        let Some(round) = items[at].round else { continue };
        // A round that has begun is cleared to its end: its results stand before one position.
        if gained >= wanted && round.followed >= position {
            break;
        }
        gained = gained.saturating_add(gain);
        position = position.max(round.followed.next());
    }
    position
}

/// The results of calls between two positions that something is gained of: what becomes of them, and how many tokens that is.
fn clearable<'a>(
    items: &'a [Item],
    clear: &'a ClearResults,
    budget: &'a FitBudget<'_>,
    from: Seq,
    to: Seq,
) -> impl Iterator<Item = (usize, Message, u64)> + 'a {
    let mut calls: &[ToolCall] = &[];
    items.iter().enumerate().filter_map(move |(at, Item { message, round, .. })| {
        if !message.is_tool_result() {
            calls = message.tool_calls();
            return None;
        }
        if !round.is_some_and(|round| (from..to).contains(&round.followed)) {
            return None;
        }
        let call = calls.iter().find(|call| Some(call.id()) == message.tool_call_id());
        let cleared = clear.clear(message, call.map(ToolCall::name))?;
        let gain = (budget.cost)(message).checked_sub((budget.cost)(&cleared)).filter(|gain| *gain > 0)?;
        Some((at, cleared, gain))
    })
}
