//! Custom rules for choosing the turns that are sent.

use std::{cmp::Ordering, fmt};

use tower_chat_history_core::{Message, Seq};

/// Chooses the turns that are sent if the window has to be compacted. Without a trimmer, the newest turns are sent.
///
/// A trimmer chooses among whole turns, so the prompt obeys the chat rules whatever it chooses. The turn that the input
/// belongs to is not among them: it always stays (without its earlier rounds, if it is too large). If the high
/// [watermark](super::Watermarks) counts messages or turns, a window that exceeds it is compacted without the trimmer.
///
/// A choice applies to one call, and is not stored: the trimmer runs again for the next call. No compaction is stored
/// either, so the window grows up to the load limit. The provider's prefix cache ends where the trimmer's choice first
/// differs from its previous choice. If the chosen turns do not fit, the choice is ignored, and the newest turns are
/// kept for this call.
///
/// Anthropic's signed reasoning that was made after a trimmed prompt is left out of later prompts, also within the same
/// turn, because their beginning differs. If the model [thinks with a
/// budget](crate::context::RequestInfo::thinks_with_budget), the provider refuses such a turn. The window is then
/// compacted without the trimmer, and the compaction is stored.
pub trait Trimmer: fmt::Debug + Send + Sync + 'static {
    /// Returns the part of each turn that is kept, in the order of `turns`. If the returned list is shorter than
    /// `turns`, the remaining turns are left out. The kept turns must have at most `room` tokens together. Otherwise
    /// the choice is ignored.
    fn trim(&self, turns: &[TrimTurn<'_>], room: u64) -> Vec<KeepTurn>;
}

/// One turn of a window. A later turn that cannot be sent without it is a part of it. Such a turn begins with a reply,
/// or with an instruction that must follow a message of the user, or has a message with a text and results of this
/// turn's calls.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TrimTurn<'a> {
    /// The position at which the turn begins.
    pub seq: Seq,
    /// The messages, as they would be sent.
    pub messages: &'a [Message],
    /// The number of tokens of the messages. If one of them belongs to the turn of the input, and has a text besides
    /// results of this turn's calls, the text does not count, because it always stays.
    pub tokens: u64,
    /// The number of tokens without tool calls and their results.
    pub tokens_without_rounds: u64,
}

/// The part of a turn that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepTurn {
    /// All messages.
    Whole,
    /// All messages except tool calls and results: user messages and final answers.
    WithoutRounds,
    /// No message. Only a text that [always stays](TrimTurn::tokens) is kept.
    Nothing,
}

/// Keeps the turns with the highest scores.
///
/// ```
/// use tower_chat_history::{
///     Message,
///     budget::{Importance, TrimTurn},
/// };
///
/// // The score is higher for turns that mention an order, and for newer turns.
/// let score = |turn: &TrimTurn<'_>| {
///     let mentions_order = |message: &&Message| message.text().contains("order");
///     let mentions = turn.messages.iter().filter(mentions_order).count();
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
    /// Creates a trimmer from a closure that returns a turn's score. The trimmer goes through the turns from the
    /// highest score to the lowest, and keeps each turn that fits. A turn that does not fit whole is kept without its
    /// rounds if that fits, and left out otherwise.
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
        // Of two turns with the same score, the newer one comes first.
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

/// Keeps the first turns, which often state the purpose of a conversation, and then the newest.
#[derive(Clone, Copy, Debug)]
pub struct KeepFirst(usize);

impl KeepFirst {
    /// Creates a trimmer that keeps this many turns at the beginning of the window, if they fit, and then as many of
    /// the newest turns as fit.
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
        // The newest turns are kept without gaps: the loop stops at the first one that does not fit.
        for turn in (first..turns.len()).rev() {
            kept[turn] = keep(&turns[turn], &mut left);
            if kept[turn] == KeepTurn::Nothing {
                break;
            }
        }
        kept
    }
}

/// Keeps as much of a turn as fits.
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
    fn the_turns_with_the_lowest_scores_are_left_out() {
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
    fn the_first_turns_and_then_the_newest_are_kept() {
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
