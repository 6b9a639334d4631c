//! Clearing old results.

use tower_chat_history_core::{Message, Seq, ToolCall};

use super::{fit::Fitting, fold::Item};
use crate::budget::ClearResults;

/// Clears the results of all calls before a position.
pub(super) fn apply(items: &mut [Item], clear: &ClearResults, before: Seq) {
    let cleared: Vec<(usize, Message)> =
        clearable(items, clear).filter(|(at, _)| items[*at].round < Some(before)).collect();
    for (at, message) in cleared {
        items[at].message = message;
    }
}

/// The position, `from` or behind it, before which results are cleared to gain that many tokens, or as many as can be.
pub(super) fn position(items: &[Item], clear: &ClearResults, fitting: &Fitting<'_>, from: Seq, gain: u64) -> Seq {
    let results: Vec<Seq> =
        items.iter().filter(|item| item.message.is_tool_result()).filter_map(|item| item.round).collect();
    // The round of the oldest result that is kept.
    let kept = results.len().checked_sub(clear.keep).and_then(|at| results.get(at).copied());
    let end = match (kept, results.last()) {
        (Some(kept), _) => kept,
        (None, Some(last)) if clear.keep == 0 => last.next(),
        (None, _) => return from,
    };
    let (mut position, mut gained, wanted) = (from, 0, gain.max(clear.at_least));
    for (at, cleared) in clearable(items, clear) {
        let Some(round) = items[at].round.filter(|round| *round < end) else { continue };
        // Results of one round are cleared together.
        if gained >= wanted && round >= position {
            break;
        }
        let cost = |message: &Message| (fitting.cost)(message);
        gained += cost(&items[at].message).saturating_sub(cost(&cleared));
        position = position.max(round.next());
    }
    position
}

/// The results that something would be gained of, and what would become of them.
fn clearable<'a>(items: &'a [Item], clear: &'a ClearResults) -> impl Iterator<Item = (usize, Message)> + 'a {
    let mut calls: &[ToolCall] = &[];
    items.iter().enumerate().filter_map(move |(at, Item { message, .. })| {
        if !message.is_tool_result() {
            calls = message.tool_calls();
            return None;
        }
        let call = calls.iter().find(|call| Some(call.id()) == message.tool_call_id());
        clear.clear(message, call.map(ToolCall::name)).map(|cleared| (at, cleared))
    })
}
