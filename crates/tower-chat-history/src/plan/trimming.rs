//! Asking a trimmer.

use tower_chat_history_core::{Message, Seq};

use super::{
    fit::{Compaction, Log},
    fold::Item,
    sizes::{Positions, index},
};
use crate::budget::{Keep, TrimTurn, Trimmer};

/// What the trimmer keeps, if that fits: the items, and their tokens.
pub(super) fn trim(
    items: &[Item],
    log: &Log,
    compaction: &Compaction<'_>,
    trimmer: &dyn Trimmer,
) -> Option<(Vec<Item>, u64)> {
    let room = compaction.room_within_limit()?;
    let current = Positions { window: log.most.window, ..log.base };
    // Of the turn that the input belongs to all stays, if there is room for that.
    let current = [current, log.most].into_iter().find(|at| compaction.sizes.kept(*at).tokens <= room)?;
    let current_tokens = compaction.sizes.kept(current).tokens;
    let (sent_from, rounds_from) = (log.seq(current.window), log.seq(current.rounds.max(current.window)));

    let items: Vec<&Item> =
        items.iter().filter(|item| is_kept(item, log.seq(log.base.window), log.seq(log.base.rounds))).collect();
    let openings = log.openings.iter().copied().filter(|opening| *opening < current.window);
    let openings: Vec<usize> = openings.collect();
    let turn_of = |item: &Item| {
        let at = index(item.round.unwrap_or(item.seq), log.first);
        openings.partition_point(|opening| *opening <= at).saturating_sub(1)
    };
    let is_earlier = |item: &&&Item| item.round.unwrap_or(item.seq) < sent_from;

    let mut messages: Vec<Vec<Message>> = vec![Vec::new(); openings.len()];
    for item in items.iter().filter(is_earlier) {
        messages[turn_of(item)].push(item.message.clone());
    }
    let at = |window: usize, rounds: usize| compaction.sizes.kept(Positions { window, rounds }).tokens;
    let ends = openings.iter().skip(1).copied().chain([current.window]);
    let turns = openings.iter().zip(ends).zip(&messages).map(|((opening, end), messages)| TrimTurn {
        seq: log.seq(*opening),
        messages,
        tokens: at(*opening, log.base.rounds) - at(end, log.base.rounds),
        tokens_without_rounds: at(*opening, log.len) - at(end, log.len),
    });
    let turns: Vec<TrimTurn<'_>> = turns.collect();
    let kept = trimmer.trim(&turns, room - current_tokens);

    let tokens = turns.iter().zip(&kept).map(|(turn, keep)| match keep {
        Keep::Whole => turn.tokens,
        Keep::WithoutRounds => turn.tokens_without_rounds,
        Keep::Nothing => 0,
    });
    let tokens = tokens.sum::<u64>() + current_tokens;
    let stays = |item: &&&Item| match kept.get(turn_of(item)) {
        _ if !is_earlier(item) => is_kept(item, sent_from, rounds_from),
        Some(Keep::Whole) => true,
        Some(Keep::WithoutRounds) => item.round.is_none(),
        Some(Keep::Nothing) | None => false,
    };
    (tokens <= room).then(|| (items.iter().filter(stays).map(|item| (*item).clone()).collect(), tokens))
}

fn is_kept(item: &Item, window: Seq, rounds: Seq) -> bool {
    item.seq >= window && item.round.is_none_or(|round| round >= window.max(rounds))
}
