//! Trimming a window with a [`Trimmer`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use tower_chat_history_core::Message;

use super::{cutoff_search::CutoffSearch, item::Item, sizes::Cutoffs};
use crate::budget::{KeepTurn, TrimTurn, Trimmer};

/// Returns the items that the trimmer keeps and their tokens, or `None` if they do not fit.
pub(super) fn trim(items: &[Item], search: &CutoffSearch<'_>, trimmer: &dyn Trimmer) -> Option<(Vec<Item>, u64)> {
    let log = search.log;
    let tokens = |window: usize, rounds: usize| search.sizes.kept(Cutoffs { window, rounds }).tokens;
    let room = search.budget.room_before_due()?;
    // The whole turn of the input stays if it fits. Otherwise only the messages that have to be sent stay.
    let current = [Cutoffs { window: log.most.window, ..log.base }, log.most];
    let current = current.into_iter().find(|at| search.sizes.kept(*at).tokens <= room)?;
    let current_tokens = search.sizes.kept(current).tokens;

    let openings: Vec<usize> = log.openings.iter().copied().filter(|opening| *opening < current.window).collect();
    // The index of the earlier turn that an item belongs to. A result belongs to the turn of its call, even if it was
    // stored after that turn.
    let turn_of = |item: &Item| {
        let at = log.index(item.round.map_or(item.seq, |round| round.asked));
        (at < current.window).then(|| openings.partition_point(|opening| *opening <= at).saturating_sub(1))
    };
    let (from, rounds) = (log.seq(log.base.window), log.seq(log.base.rounds));
    let items: Vec<Item> = items.iter().filter_map(|item| item.clone().kept(from, rounds)).collect();
    let mut messages: Vec<Vec<Message>> = vec![Vec::new(); openings.len()];
    for item in &items {
        if let Some(turn) = turn_of(item).and_then(|turn| messages.get_mut(turn)) {
            turn.push(item.message.clone());
        }
    }
    // This cutoff also leaves out a last round that only the next exchange will follow.
    let all_rounds = log.len + 1;
    let ends = openings.iter().skip(1).copied().chain([current.window]);
    let turns = openings.iter().zip(ends).zip(&messages).map(|((opening, end), messages)| TrimTurn {
        seq: log.seq(*opening),
        messages,
        tokens: tokens(*opening, log.base.rounds).saturating_sub(tokens(end, log.base.rounds)),
        tokens_without_rounds: tokens(*opening, all_rounds).saturating_sub(tokens(end, all_rounds)),
    });
    let turns: Vec<TrimTurn<'_>> = turns.collect();
    let trim = AssertUnwindSafe(|| trimmer.trim(&turns, room - current_tokens));
    let Ok(kept) = catch_unwind(trim) else {
        tracing::error!("the trimmer panicked; the newest turns are kept");
        return None;
    };

    let kept_tokens = turns.iter().zip(&kept).map(|(turn, keep)| match keep {
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
            Some(KeepTurn::Nothing) | None => None,
        },
    };
    (tokens <= room).then(|| (items.iter().cloned().filter_map(stays).collect(), tokens))
}
