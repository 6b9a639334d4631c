//! Trimming a window with a [`Trimmer`].

use tower_chat_history_core::Message;

use super::{
    cutoff_search::CutoffSearch,
    fold::ends_with_question,
    item::Item,
    window_index::{Cutoffs, WindowIndex},
};
use crate::context::{
    bridge::waits_for_reply,
    budget::{KeepTurn, TrimTurn, Trimmer},
};

/// Returns the items that the trimmer keeps and their tokens, or `None` if they do not fit.
pub(super) fn trim(items: &[Item], search: &CutoffSearch<'_>, trimmer: &dyn Trimmer) -> Option<(Vec<Item>, u64)> {
    let log = search.log;
    let room = search.budget.room_before_due()?;

    // The whole turn of the input stays if it fits. Otherwise only the messages that have to be sent stay.
    let whole = Cutoffs { window: log.most.window, ..log.base };
    let current = [whole, log.most].into_iter().find(|at| search.sizes.kept(*at).tokens <= room)?;
    let current_tokens = search.sizes.kept(current).tokens;

    let base = log.extent(log.base);
    let items: Vec<Item> = items.iter().filter_map(|item| item.clone().kept(base)).collect();
    let turns = EarlierTurns::of(&items, log, current.window);
    let mut messages: Vec<Vec<Message>> = vec![Vec::new(); turns.starts.len()];
    for item in &items {
        if let Some(turn) = turns.turn_of(item).and_then(|turn| messages.get_mut(turn)) {
            turn.push(item.message.clone());
        }
    }

    let mut offered = Vec::with_capacity(messages.len());
    let ends = turns.starts.iter().skip(1).copied().chain([current.window]);
    for ((start, end), messages) in turns.starts.iter().copied().zip(ends).zip(&messages) {
        // The largest cutoff also leaves out a last round that only the next exchange will follow.
        offered.push(TrimTurn {
            seq: log.seq(start),
            messages,
            tokens: tokens_between(search, start, end, log.base.rounds),
            tokens_without_rounds: tokens_between(search, start, end, log.len + 1),
        });
    }
    let kept = trimmer.trim(&offered, room - current_tokens);

    let mut tokens = current_tokens;
    for (turn, keep) in offered.iter().zip(&kept) {
        tokens = tokens.saturating_add(match keep {
            KeepTurn::Whole => turn.tokens,
            KeepTurn::WithoutRounds => turn.tokens_without_rounds,
            KeepTurn::Nothing => 0,
        });
    }
    if tokens > room {
        return None;
    }

    let extent = log.extent(current);
    let mut sent = Vec::with_capacity(items.len());
    for item in &items {
        let item = item.clone();
        let stays = match turns.turn_of(&item) {
            None => item.kept(extent),
            Some(turn) => match kept.get(turn) {
                Some(KeepTurn::Whole) => Some(item),
                Some(KeepTurn::WithoutRounds) => item.without_round(),
                // A message of the input's turn can have results of an earlier turn's calls and a text. The text stays.
                Some(KeepTurn::Nothing) | None => {
                    item.without_round().filter(|item| item.seq >= extent.window && !item.is_bridge)
                }
            },
        };
        sent.extend(stays);
    }
    Some((sent, tokens))
}

/// Returns the tokens of the messages between two starts of the window, with this cutoff of rounds.
fn tokens_between(search: &CutoffSearch<'_>, start: usize, end: usize, rounds: usize) -> u64 {
    let from_start = search.sizes.kept(Cutoffs { window: start, rounds }).tokens;
    let from_end = search.sizes.kept(Cutoffs { window: end, rounds }).tokens;
    from_start.saturating_sub(from_end)
}

/// The turns before that of the input.
struct EarlierTurns<'a> {
    log: &'a WindowIndex<'a>,
    /// The indexes at which they start. Each of them can be left out, and the others are still valid and have their own
    /// tokens.
    starts: Vec<usize>,
    /// The index at which the turn of the input starts.
    end: usize,
}

impl<'a> EarlierTurns<'a> {
    fn of(items: &[Item], log: &'a WindowIndex<'a>, end: usize) -> Self {
        // For each index, the end of the messages that stay with those at this index: they have results of calls at
        // this index, and a text.
        let mut bound_until = vec![0; log.len + 1];
        for item in items.iter().filter(|item| item.rest.is_some()) {
            let asked = asked_at(item, log);
            bound_until[asked] = bound_until[asked].max(log.index(item.seq) + 1);
        }

        // A message can wait for a reply without a constant reply after it: an instruction follows, for example. The
        // next question would directly follow it, if what is between them were left out alone.
        for (at, next) in items.iter().enumerate().skip(1) {
            let (before, _) = items.split_at(at);
            let Some(last) = before.last() else { continue };
            let asked = asked_at(last, log);
            let next = asked_at(next, log);
            if next > asked && (waits_for_reply(&last.message) || ends_with_question(before.iter())) {
                bound_until[asked] = bound_until[asked].max(next + 1);
            }
        }

        let mut starts = Vec::new();
        let mut before = log.base.window;
        let mut until = 0;
        for start in log.starts().iter().copied().take_while(|start| *start < end) {
            until = bound_until[before..start].iter().copied().fold(until, usize::max);
            before = start;
            // The turn cannot be left out if the turn of the calls, or of the message that waits, is kept.
            if until <= start {
                starts.push(start);
            }
        }
        Self { log, starts, end }
    }

    /// Returns the number of the turn that an item belongs to, or `None` if it is the turn of the input. A result
    /// belongs to the turn of its call.
    fn turn_of(&self, item: &Item) -> Option<usize> {
        let at = asked_at(item, self.log);
        if at >= self.end {
            return None;
        }
        Some(self.starts.partition_point(|start| *start <= at).saturating_sub(1))
    }
}

/// Returns the index of the exchange with the calls of the item's round. Without a round, it is that of the item.
fn asked_at(item: &Item, log: &WindowIndex<'_>) -> usize {
    log.index(item.round.map_or(item.seq, |round| round.asked))
}
