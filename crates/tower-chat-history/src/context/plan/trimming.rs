//! Trimming a window with a [`Trimmer`].

use tower_chat_history_core::Message;

use super::{cutoff_search::CutoffSearch, item::Item, sizes::Cutoffs, window_index::WindowIndex};
use crate::context::budget::{KeepTurn, TrimTurn, Trimmer};

/// Returns the items that the trimmer keeps and their tokens, or `None` if they do not fit.
pub(super) fn trim(items: &[Item], search: &CutoffSearch<'_>, trimmer: &dyn Trimmer) -> Option<(Vec<Item>, u64)> {
    let log = search.log;
    let tokens = |window: usize, rounds: usize| search.sizes.kept(Cutoffs { window, rounds }).tokens;
    let room = search.budget.room_before_due()?;
    // The whole turn of the input stays if it fits. Otherwise only the messages that have to be sent stay.
    let current = [Cutoffs { window: log.most.window, ..log.base }, log.most];
    let current = current.into_iter().find(|at| search.sizes.kept(*at).tokens <= room)?;
    let current_tokens = search.sizes.kept(current).tokens;

    let (from, rounds) = (log.seq(log.base.window), log.seq(log.base.rounds));
    let items: Vec<Item> = items.iter().filter_map(|item| item.clone().kept(from, rounds)).collect();
    let turns = turns_before(&items, log, current.window);
    // The index of the earlier turn that an item belongs to. A result belongs to the turn of its call.
    let turn_of = |item: &Item| {
        let at = asked_at(item, log);
        (at < current.window).then(|| turns.partition_point(|start| *start <= at).saturating_sub(1))
    };
    let mut messages: Vec<Vec<Message>> = vec![Vec::new(); turns.len()];
    for item in &items {
        if let Some(turn) = turn_of(item).and_then(|turn| messages.get_mut(turn)) {
            turn.push(item.message.clone());
        }
    }
    // This cutoff also leaves out a last round that only the next exchange will follow.
    let all_rounds = log.len + 1;
    let ends = turns.iter().skip(1).copied().chain([current.window]);
    let offered = turns.iter().zip(ends).zip(&messages).map(|((start, end), messages)| TrimTurn {
        seq: log.seq(*start),
        messages,
        tokens: tokens(*start, log.base.rounds).saturating_sub(tokens(end, log.base.rounds)),
        tokens_without_rounds: tokens(*start, all_rounds).saturating_sub(tokens(end, all_rounds)),
    });
    let offered: Vec<TrimTurn<'_>> = offered.collect();
    let kept = trimmer.trim(&offered, room - current_tokens);

    let kept_tokens = offered.iter().zip(&kept).map(|(turn, keep)| match keep {
        KeepTurn::Whole => turn.tokens,
        KeepTurn::WithoutRounds => turn.tokens_without_rounds,
        KeepTurn::Nothing => 0,
    });
    let tokens = kept_tokens.fold(current_tokens, u64::saturating_add);
    let (from, rounds) = (log.seq(current.window), log.seq(current.rounds.max(current.window)));
    let stays = |item: Item| match turn_of(&item) {
        None => item.kept(from, rounds),
        Some(turn) => match kept.get(turn) {
            Some(KeepTurn::Whole) => Some(item),
            Some(KeepTurn::WithoutRounds) => item.without_round(),
            // A message of the input's turn can have results of an earlier turn's calls and a text. The text stays.
            Some(KeepTurn::Nothing) | None => item.without_round().filter(|item| item.seq >= from),
        },
    };
    (tokens <= room).then(|| (items.iter().cloned().filter_map(stays).collect(), tokens))
}

/// Returns the index of the exchange with the calls of the item's round. Without a round, it is that of the item.
fn asked_at(item: &Item, log: &WindowIndex<'_>) -> usize {
    log.index(item.round.map_or(item.seq, |round| round.asked))
}

/// Returns the indexes at which turns before `end` start. Each of them can be left out, and the others are still valid
/// and have their own tokens.
fn turns_before(items: &[Item], log: &WindowIndex<'_>, end: usize) -> Vec<usize> {
    // For each index, the end of the messages that have results of calls at this index, and a text.
    let mut answered_until = vec![0; log.len + 1];
    for item in items.iter().filter(|item| item.rest.is_some()) {
        let asked = asked_at(item, log);
        answered_until[asked] = answered_until[asked].max(log.index(item.seq) + 1);
    }
    let (mut turns, mut before, mut until) = (Vec::new(), log.base.window, 0);
    for start in log.starts().iter().copied().take_while(|start| *start < end) {
        until = answered_until[before..start].iter().copied().fold(until, usize::max);
        before = start;
        // Such a message is one message, so its turn cannot be left out if the turn of the calls is kept.
        if until <= start {
            turns.push(start);
        }
    }
    turns
}
