//! The positions of the cut under which a prompt was made.

use serde::{Deserialize, Serialize};

use crate::{compaction::Cut, seq::Seq};

/// The positions of a [`Cut`], with the end of its summary in place of the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "SevenPositions", into = "SevenPositions")]
#[non_exhaustive]
pub struct Positions {
    /// [`Cut::window_start`].
    pub window_start: Seq,
    /// [`Cut::rounds_start`].
    pub rounds_start: Seq,
    /// [`Cut::cleared_before`].
    pub cleared_before: Seq,
    /// [`Cut::recalled_from`].
    pub recalled_from: Seq,
    /// [`Cut::reasoning_from`].
    pub reasoning_from: Seq,
    /// [`Cut::encrypted_from`].
    pub encrypted_from: Seq,
    /// The end of the exchanges that the [summary](Cut::summary) covers, or the first position if there is none.
    pub covers_to: Seq,
}

impl Cut {
    /// Creates the cut at these positions, without a summary.
    #[must_use]
    pub const fn at(positions: Positions) -> Self {
        Self {
            window_start: positions.window_start,
            rounds_start: positions.rounds_start,
            cleared_before: positions.cleared_before,
            recalled_from: positions.recalled_from,
            reasoning_from: positions.reasoning_from,
            encrypted_from: positions.encrypted_from,
            summary: None,
        }
    }

    /// Returns the positions.
    #[must_use]
    pub fn positions(&self) -> Positions {
        Positions {
            window_start: self.window_start,
            rounds_start: self.rounds_start,
            cleared_before: self.cleared_before,
            recalled_from: self.recalled_from,
            reasoning_from: self.reasoning_from,
            encrypted_from: self.encrypted_from,
            covers_to: self.covers_to(),
        }
    }
}

type SevenPositions = (Seq, Seq, Seq, Seq, Seq, Seq, Seq);

impl From<SevenPositions> for Positions {
    fn from(positions: SevenPositions) -> Self {
        let (window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to) =
            positions;
        Self { window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to }
    }
}

impl From<Positions> for SevenPositions {
    fn from(cut: Positions) -> Self {
        let Positions { window_start, rounds_start, cleared_before, .. } = cut;
        let Positions { recalled_from, reasoning_from, encrypted_from, covers_to, .. } = cut;
        (window_start, rounds_start, cleared_before, recalled_from, reasoning_from, encrypted_from, covers_to)
    }
}
