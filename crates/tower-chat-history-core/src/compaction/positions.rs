//! The positions of a compaction.

use serde::{Deserialize, Serialize};

use crate::{json::AtMost, seq::Seq};

/// The positions of a compaction in the log. They say what a prompt lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "AtMost<Seq, LEN>", into = "Vec<Seq>")]
#[non_exhaustive]
pub struct Positions {
    /// The first exchange of the window. It always opens a turn.
    pub window_start: Seq,
    /// A tool round (an assistant message with calls, and their results) is left out of prompts if the whole round and
    /// the message after it are before this position. A round at the end of the log is therefore never left out.
    pub rounds_start: Seq,
    /// The end of the summarized exchanges: the summary covers every exchange before this position. It is the first
    /// position if there is no summary.
    pub covers_to: Seq,
    /// A tool result is replaced by a placeholder in prompts if it and the message after its round are before this
    /// position.
    pub cleared_before: Seq,
    /// The [recalled messages](crate::Exchange::recalled) of an exchange before this position are left out of prompts.
    pub recalled_from: Seq,
    /// The reasoning of replies before this position is left out of prompts, if it is [bound](crate::Bound) to its
    /// prompt.
    pub reasoning_from: Seq,
    /// In replies before this position, everything that is [bound](crate::Bound) to its origin is left out of prompts,
    /// because the provider cannot read it any more: encrypted reasoning, and ids of the provider.
    pub encrypted_from: Seq,
    /// The reasoning of replies before this position is left out of prompts, if it is not [bound](crate::Bound) to
    /// anything, and if the reader of the prompt does not require it.
    pub thoughts_from: Seq,
}

const LEN: usize = 8;

impl Positions {
    /// Returns the positions of a window that starts at `seq`. Neither recalled messages nor reasoning nor encrypted
    /// elements are left out of it, and nothing is summarized.
    #[must_use]
    pub const fn window_from(seq: Seq) -> Self {
        Self {
            window_start: seq,
            rounds_start: seq,
            covers_to: Seq::FIRST,
            cleared_before: seq,
            recalled_from: Seq::FIRST,
            reasoning_from: Seq::FIRST,
            encrypted_from: Seq::FIRST,
            thoughts_from: Seq::FIRST,
        }
    }

    /// Returns `true` if the recalled messages of the exchange at this position are sent.
    #[must_use]
    pub fn sends_recalled(self, seq: Seq) -> bool {
        seq >= self.recalled_from
    }

    /// Returns `true` if the bound reasoning of the exchange at this position is sent, as far as it is still valid.
    #[must_use]
    pub fn sends_reasoning(self, seq: Seq) -> bool {
        seq >= self.reasoning_from
    }

    /// Returns `true` if the encrypted elements of the exchange at this position are sent, as far as the provider can
    /// read them.
    #[must_use]
    pub fn sends_encrypted(self, seq: Seq) -> bool {
        seq >= self.encrypted_from
    }

    /// Returns the larger one of each position.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let mut positions = <[Seq; LEN]>::from(self);
        for (seq, other) in positions.iter_mut().zip(<[Seq; LEN]>::from(other)) {
            *seq = other.max(*seq);
        }
        Self::from(positions)
    }

    /// Returns the positions for a log that ends at `end`: those after it are lowered to it.
    #[must_use]
    pub fn up_to(self, end: Seq) -> Self {
        Self::from(<[Seq; LEN]>::from(self).map(|seq| seq.min(end)))
    }

    /// Returns `true` if a position is before the one in `other`.
    #[must_use]
    pub fn goes_back_from(self, other: Self) -> bool {
        self.max(other) != self
    }

    /// Returns the last one of the positions.
    pub(super) fn latest(self) -> Seq {
        <[Seq; LEN]>::from(self).into_iter().fold(Seq::FIRST, Seq::max)
    }
}

/// The positions in the order in which they are stored: those first that are rarely 0.
impl From<Positions> for [Seq; LEN] {
    fn from(positions: Positions) -> Self {
        [
            positions.window_start,
            positions.rounds_start,
            positions.covers_to,
            positions.cleared_before,
            positions.recalled_from,
            positions.reasoning_from,
            positions.encrypted_from,
            positions.thoughts_from,
        ]
    }
}

impl From<[Seq; LEN]> for Positions {
    fn from(positions: [Seq; LEN]) -> Self {
        let [
            window_start,
            rounds_start,
            covers_to,
            cleared_before,
            recalled_from,
            reasoning_from,
            encrypted_from,
            thoughts_from,
        ] = positions;
        Self {
            window_start,
            rounds_start,
            covers_to,
            cleared_before,
            recalled_from,
            reasoning_from,
            encrypted_from,
            thoughts_from,
        }
    }
}

/// The positions as they are stored, without the zeros at the end.
impl From<Positions> for Vec<Seq> {
    fn from(positions: Positions) -> Self {
        let mut stored = Self::from(<[Seq; LEN]>::from(positions));
        while stored.pop_if(|seq| *seq == Seq::FIRST).is_some() {}
        stored
    }
}

impl From<AtMost<Seq, LEN>> for Positions {
    fn from(AtMost(stored): AtMost<Seq, LEN>) -> Self {
        let mut positions = [Seq::FIRST; LEN];
        for (position, stored) in positions.iter_mut().zip(stored) {
            *position = stored;
        }
        Self::from(positions)
    }
}
