//! Clearing old tool results.

use std::collections::HashMap;

use tower_chat_history_core::{CallId, Message, Seq};

use super::item::{Item, Round};
use crate::context::budget::ClearResults;

/// Counts the tokens of a message.
type Cost<'a> = &'a dyn Fn(&Message) -> u64;

/// Clears the results of all rounds that are followed by an exchange before this position.
pub(super) fn apply(items: &mut [Item], clear: &ClearResults, cost: Cost<'_>, before: Seq) {
    let cleared: Vec<(usize, Message)> =
        clearable(items, clear, cost, Seq::FIRST, before).map(|(at, message, _)| (at, message)).collect();
    for (at, message) in cleared {
        items[at].message = message;
    }
}

/// Returns the position before which results have to be cleared to free `wanted` tokens, or to free as many as possible
/// if these are fewer. The position is at least `from`.
///
/// The position of a round is the exchange that follows it. Results at the end of the log are never cleared,
/// because the next exchange may add results to their round. `end` is the position of that exchange.
pub(super) fn position(
    items: &[Item],
    clear: &ClearResults,
    cost: Cost<'_>,
    (from, end): (Seq, Seq),
    wanted: u64,
) -> Seq {
    // The rounds of all results, each as often as it has results.
    let mut rounds: Vec<Round> = Vec::new();
    for item in items {
        rounds.extend(item.message.answers().iter().filter_map(|_| item.round));
    }

    // The round of the oldest result that is kept.
    let kept = rounds.len().checked_sub(clear.keep).and_then(|at| rounds.get(at).copied());
    let end = match kept {
        Some(kept) => kept.followed.min(end),
        None if clear.keep == 0 => end,
        None => return from,
    };

    let mut position = from;
    let mut freed = 0_u64;
    for (at, _, tokens) in clearable(items, clear, cost, from, end) {
        let Some(round) = items[at].round else { continue };
        // The results of a round have the same position, so they are cleared together.
        if freed >= wanted && round.followed >= position {
            break;
        }
        freed = freed.saturating_add(tokens);
        position = position.max(round.followed.next());
    }

    position
}

/// Iterates over the messages with results between two positions, except those whose clearing frees no tokens. Yields
/// the index of the item, the cleared message, and the number of freed tokens.
fn clearable<'a>(
    items: &'a [Item],
    clear: &'a ClearResults,
    cost: Cost<'a>,
    from: Seq,
    to: Seq,
) -> impl Iterator<Item = (usize, Message, u64)> + 'a {
    let mut names = Names::default();
    items.iter().enumerate().filter_map(move |(at, Item { message, round, .. })| {
        let is_between = round.is_some_and(|round| (from..to).contains(&round.followed));
        let cleared = is_between.then(|| clear.clear(message, &|id| names.by_id.get(id).copied())).flatten();
        names.note(message, *round);
        let cleared = cleared?;
        let freed = cost(message).checked_sub(cost(&cleared)).filter(|freed| *freed > 0)?;
        Some((at, cleared, freed))
    })
}

/// The names of the newest round's calls, by id. Of several calls with the same id, the first one's name applies.
#[derive(Default)]
struct Names<'a> {
    by_id: HashMap<&'a CallId, &'a str>,
    round: Option<Round>,
}

impl<'a> Names<'a> {
    fn note(&mut self, message: &'a Message, round: Option<Round>) {
        if message.is_tool_result() {
            return;
        }
        if self.round != round {
            self.by_id.clear();
        }
        self.round = round;
        for call in message.tool_calls() {
            self.by_id.entry(call.call_id()).or_insert(call.name());
        }
    }
}
