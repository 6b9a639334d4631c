//! Deciding by other rules which turns are sent.

use std::{cmp::Ordering, fmt};

use tower_chat_history_core::{Message, Seq};

/// Decides which turns are sent when the window has to be compacted, in place of the rule that the newest are.
///
/// It chooses among whole turns, so whatever it says, what is sent obeys the chat rules. The turn that the input belongs to
/// is not asked for: it stays. What a trimmer decides is for one call: it is asked again with the next one, and a provider's
/// cache of the prompt is of use only as far as it decides the same. Nothing is stored, so the window grows up to the
/// load limit. Where what it keeps does not fit, or where it panics, its decision is
/// ignored, and the newest turns are kept for this call. [Marks](super::Watermarks) that count messages or turns come first: it
/// chooses among what they leave.
pub trait Trimmer: fmt::Debug + Send + Sync + 'static {
    /// How much of each turn is kept, in the order of the turns; of those behind the end of the list, nothing. Together they
    /// should not have more than `room` tokens.
    fn trim(&self, turns: &[TrimTurn<'_>], room: u64) -> Vec<KeepTurn>;
}

/// One turn of a window.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TrimTurn<'a> {
    /// Where it begins.
    pub seq: Seq,
    /// Its messages, as they would be sent.
    pub messages: &'a [Message],
    /// Their tokens.
    pub tokens: u64,
    /// Their tokens without tool calls and results.
    pub tokens_without_rounds: u64,
}

/// How much of a turn is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepTurn {
    /// All of it.
    Whole,
    /// All but tool calls and results: user messages and final answers.
    WithoutRounds,
    /// Nothing.
    Nothing,
}

/// Keeps the turns that matter most, by a score.
///
/// ```
/// use tower_chat_history_context::budget::{Importance, TrimTurn};
///
/// // What mentions an order is worth more than what does not, and newer turns are worth more than older ones.
/// let score = |turn: &TrimTurn<'_>| {
///     let mentions = turn.messages.iter().filter(|message| message.text().contains("order")).count();
///     mentions as f64 * 1_000.0 + turn.seq.get() as f64
/// };
/// let trimmer = Importance::new(score); // For `ContextOptions::trimmer`.
/// # let _ = trimmer;
/// ```
#[derive(Clone, Copy)]
pub struct Importance<F>(F);

impl<F> Importance<F>
where
    F: Fn(&TrimTurn<'_>) -> f64,
{
    /// The turns with the highest scores are kept, as many as fit. A turn that does not fit whole is kept without its rounds,
    /// if that fits.
    pub const fn new(score: F) -> Self {
        Self(score)
    }
}

impl<F> Trimmer for Importance<F>
where
    F: Fn(&TrimTurn<'_>) -> f64 + Send + Sync + 'static,
{
    fn trim(&self, turns: &[TrimTurn<'_>], room: u64) -> Vec<KeepTurn> {
        let mut scored: Vec<(usize, f64)> = turns.iter().map(&self.0).enumerate().collect();
        // The newer of two that matter as much comes first.
        scored.sort_by(|(at, one), (other_at, other)| {
            other.partial_cmp(one).unwrap_or(Ordering::Equal).then(other_at.cmp(at))
        });
        let mut kept = vec![KeepTurn::Nothing; turns.len()];
        let mut left = room;
        for (turn, _) in scored {
            kept[turn] = keep(&turns[turn], &mut left);
        }
        kept
    }
}

/// Keeps the first turns, which say what a conversation is about, and then the newest.
#[derive(Clone, Copy, Debug)]
pub struct KeepFirst(usize);

impl KeepFirst {
    /// Keeps that many turns of the window's beginning as far as they fit, and then the newest ones.
    #[must_use]
    pub const fn new(turns: usize) -> Self {
        Self(turns)
    }
}

impl Trimmer for KeepFirst {
    fn trim(&self, turns: &[TrimTurn<'_>], room: u64) -> Vec<KeepTurn> {
        let first = self.0.min(turns.len());
        let mut kept = vec![KeepTurn::Nothing; turns.len()];
        let mut left = room;
        for turn in 0..first {
            kept[turn] = keep(&turns[turn], &mut left);
        }
        // The newest are kept without a hole: the first one that does not fit is the last that is looked at.
        for turn in (first..turns.len()).rev() {
            kept[turn] = keep(&turns[turn], &mut left);
            if kept[turn] == KeepTurn::Nothing {
                break;
            }
        }
        kept
    }
}

/// As much of a turn as there is room for.
fn keep(turn: &TrimTurn<'_>, left: &mut u64) -> KeepTurn {
    let (keep, tokens) = if turn.tokens <= *left {
        (KeepTurn::Whole, turn.tokens)
    } else if turn.tokens_without_rounds <= *left {
        (KeepTurn::WithoutRounds, turn.tokens_without_rounds)
    } else {
        (KeepTurn::Nothing, 0)
    };
    *left -= tokens;
    keep
}

impl<F> fmt::Debug for Importance<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Importance").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(sizes: &[(u64, u64)]) -> Vec<TrimTurn<'static>> {
        let turn = |(seq, (tokens, tokens_without_rounds)): (u64, &(u64, u64))| TrimTurn {
            seq: Seq::new(seq),
            messages: &[],
            tokens: *tokens,
            tokens_without_rounds: *tokens_without_rounds,
        };
        (0..).zip(sizes).map(turn).collect()
    }

    #[test]
    fn what_matters_least_goes_first() {
        let turns = turns(&[(10, 10), (10, 10), (10, 2), (10, 10)]);
        let trimmer = Importance::new(|turn: &TrimTurn<'_>| if turn.seq == Seq::new(1) { 9.0 } else { 0.0 });
        assert_eq!(
            trimmer.trim(&turns, 23),
            [KeepTurn::Nothing, KeepTurn::Whole, KeepTurn::WithoutRounds, KeepTurn::Whole]
        );
        let undecided = Importance::new(|_: &TrimTurn<'_>| f64::NAN);
        assert_eq!(
            undecided.trim(&turns, 20),
            [KeepTurn::Nothing, KeepTurn::Nothing, KeepTurn::Whole, KeepTurn::Whole]
        );
    }

    #[test]
    fn the_first_turns_stay_and_then_the_newest() {
        let turns = turns(&[(10, 10), (10, 10), (10, 10), (10, 10)]);
        assert_eq!(
            KeepFirst::new(1).trim(&turns, 25),
            [KeepTurn::Whole, KeepTurn::Nothing, KeepTurn::Nothing, KeepTurn::Whole]
        );
        assert_eq!(
            KeepFirst::new(9).trim(&turns, 25),
            [KeepTurn::Whole, KeepTurn::Whole, KeepTurn::Nothing, KeepTurn::Nothing]
        );
    }
}
