//! The positions and the summary of a compaction, and the rules for them.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

use super::{CompactionError, LearnedReaders, Positions, Summary};
use crate::seq::Seq;

/// The [positions](Positions) and the summary of a compaction. No position ever decreases within an incarnation.
///
/// A cut dereferences to its positions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cut {
    /// The positions.
    pub positions: Positions,
    /// The text that is sent in place of the exchanges before the window. It covers every exchange before
    /// [`covers_to`](Positions::covers_to).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// The facts that the conversation has learned about its readers from refusals.
    #[serde(default, skip_serializing_if = "LearnedReaders::is_empty")]
    pub learned: LearnedReaders,
}

impl Deref for Cut {
    type Target = Positions;

    fn deref(&self) -> &Positions {
        &self.positions
    }
}

impl DerefMut for Cut {
    fn deref_mut(&mut self) -> &mut Positions {
        &mut self.positions
    }
}

impl Cut {
    /// Creates the cut at these positions, without a summary.
    #[must_use]
    pub fn at(positions: Positions) -> Self {
        Self { positions: Positions { covers_to: Seq::FIRST, ..positions }, ..Self::default() }
    }

    /// Creates a cut whose window starts at `seq`, without a summary. Neither recalled messages nor reasoning nor
    /// encrypted elements are left out.
    #[must_use]
    pub fn window_from(seq: Seq) -> Self {
        Self { positions: Positions::window_from(seq), ..Self::default() }
    }

    /// Creates a cut that only leaves out encrypted elements before this position.
    pub(crate) fn without_encrypted(before: Seq) -> Self {
        Self::at(Positions { encrypted_from: before, ..Positions::default() })
    }

    /// Sets the summary of every exchange before `covers_to`.
    pub fn set_summary(&mut self, summary: Summary, covers_to: Seq) {
        self.positions.covers_to = covers_to;
        self.summary = Some(summary);
    }

    /// Checks that this cut may replace `stored` in a log whose next position is `len`. Stores do not check cuts: that
    /// is up to the writer.
    ///
    /// `opens_turn` returns whether the exchange at a position opens a turn. It must return `true` for a
    /// [pruned](crate::Prune) exchange, so that a cut that was made before the prune can be stored after it. The window
    /// of such a cut starts where the log begins.
    ///
    /// # Errors
    ///
    /// Returns an error if a position decreases or is beyond the log, if the window would not start with an
    /// exchange that opens a turn, or if the summary covers exchanges that are still in the window.
    pub fn check(
        &self,
        stored: Option<&Self>,
        len: u64,
        opens_turn: impl FnOnce(Seq) -> bool,
    ) -> Result<(), CompactionError> {
        if stored.is_some_and(|stored| self.goes_back_from(stored.positions)) {
            return Err(CompactionError::GoesBack);
        }
        if self.covers_to > self.window_start {
            return Err(CompactionError::CoversWindow);
        }
        if self.window_start.get() >= len || self.latest().get() > len {
            return Err(CompactionError::BeyondLog);
        }
        if self.window_start != Seq::FIRST && !opens_turn(self.window_start) {
            return Err(CompactionError::NotAnOpening { seq: self.window_start });
        }
        Ok(())
    }

    /// Returns this cut for a log that is truncated to its first `len` exchanges, or `None` if it must be removed.
    ///
    /// The cut remains only if the first exchange of its window remains, and if its summary covers no removed exchange:
    /// a summary must not describe removed text. The other positions are lowered to the new end of the log if they are
    /// after it, because new exchanges will get the removed positions.
    #[must_use]
    pub fn truncated_to(&self, len: u64) -> Option<Self> {
        let end = Seq::new(len);
        if self.window_start >= end || self.covers_to > end {
            return None;
        }
        Some(Self { positions: self.up_to(end), ..self.clone() })
    }

    /// Merges this cut with `stored`, a cut that another call stored while the summary of this one was written. Returns
    /// `None` if the stored summary covers as many exchanges as this one, or more.
    ///
    /// A summary covers everything before its position, so the summary that covers more replaces the other one. Each
    /// other position of the result is the larger of the two.
    #[must_use]
    pub fn merged_onto(&self, stored: &Self) -> Option<Self> {
        if self.covers_to <= stored.covers_to {
            return None;
        }
        let mut learned = stored.learned.clone();
        learned.merge(&self.learned);
        Some(Self { positions: self.max(stored.positions), summary: self.summary.clone(), learned })
    }
}
