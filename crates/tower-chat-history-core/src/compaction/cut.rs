//! The positions and the summary of a compaction, and the rules for them.

use serde::{Deserialize, Serialize};

use super::{CompactionError, Summary};
use crate::seq::Seq;

/// The positions and the summary of a compaction. No position ever decreases within an incarnation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cut {
    /// The first exchange of the window. It always opens a turn.
    pub window_start: Seq,
    /// A tool round (an assistant message with calls, and their results) is left out of prompts if the whole round and
    /// the message after it are before this position. A round at the end of the log is therefore never left out.
    pub rounds_start: Seq,
    /// A tool result is replaced by a placeholder in prompts if it and the message after its round are before this
    /// position.
    pub cleared_before: Seq,
    /// The [recalled messages](crate::Exchange::recalled) of an exchange before this position are left out of prompts.
    #[serde(default, skip_serializing_if = "is_first")]
    pub recalled_from: Seq,
    /// The reasoning of replies before this position is left out of prompts, if it is [bound](crate::Bound) to its
    /// prompt.
    #[serde(default, skip_serializing_if = "is_first")]
    pub reasoning_from: Seq,
    /// In replies before this position, everything that is [bound](crate::Bound) to its origin is left out of prompts,
    /// because the provider cannot read it any more: encrypted reasoning, and ids of the provider.
    #[serde(default, skip_serializing_if = "is_first")]
    pub encrypted_from: Seq,
    /// The text that is sent in place of the exchanges before the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_first(seq: &Seq) -> bool {
    *seq == Seq::FIRST
}

impl Cut {
    /// Creates a cut whose window starts at `seq`, without a summary. Neither recalled messages nor reasoning nor
    /// encrypted elements are left out.
    #[must_use]
    pub const fn window_from(seq: Seq) -> Self {
        Self {
            window_start: seq,
            rounds_start: seq,
            cleared_before: seq,
            recalled_from: Seq::FIRST,
            reasoning_from: Seq::FIRST,
            encrypted_from: Seq::FIRST,
            summary: None,
        }
    }

    /// Creates a cut that only leaves out encrypted elements before this position.
    pub(crate) fn without_encrypted(before: Seq) -> Self {
        Self { encrypted_from: before, ..Self::default() }
    }

    /// Returns the position before which the summary covers every exchange, or [`Seq::FIRST`] if there is no
    /// summary.
    #[must_use]
    pub fn covers_to(&self) -> Seq {
        self.summary.as_ref().map_or(Seq::FIRST, |summary| summary.covers_to)
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
        let none = Self::default();
        let stored = stored.unwrap_or(&none);
        let back = self.window_start < stored.window_start
            || self.rounds_start < stored.rounds_start
            || self.cleared_before < stored.cleared_before
            || self.recalled_from < stored.recalled_from
            || self.reasoning_from < stored.reasoning_from
            || self.encrypted_from < stored.encrypted_from
            || self.covers_to() < stored.covers_to();
        if back {
            return Err(CompactionError::GoesBack);
        }
        if self.covers_to() > self.window_start {
            return Err(CompactionError::CoversWindow);
        }
        let latest = [self.rounds_start, self.cleared_before, self.recalled_from, self.reasoning_from];
        let latest = latest.into_iter().fold(self.encrypted_from, Seq::max);
        if self.window_start.get() >= len || latest.get() > len {
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
        (self.window_start < end && self.covers_to() <= end).then(|| Self {
            window_start: self.window_start,
            rounds_start: self.rounds_start.min(end),
            cleared_before: self.cleared_before.min(end),
            recalled_from: self.recalled_from.min(end),
            reasoning_from: self.reasoning_from.min(end),
            encrypted_from: self.encrypted_from.min(end),
            summary: self.summary.clone(),
        })
    }

    /// Merges this cut with `stored`, a cut that another call stored while the summary of this one was written. Returns
    /// `None` if the stored summary covers as many exchanges as this one, or more.
    ///
    /// A summary covers everything before its position, so the summary that covers more replaces the other one. Each
    /// other position of the result is the larger of the two.
    #[must_use]
    pub fn merged_onto(&self, stored: &Self) -> Option<Self> {
        (self.covers_to() > stored.covers_to()).then(|| Self {
            window_start: self.window_start.max(stored.window_start),
            rounds_start: self.rounds_start.max(stored.rounds_start),
            cleared_before: self.cleared_before.max(stored.cleared_before),
            recalled_from: self.recalled_from.max(stored.recalled_from),
            reasoning_from: self.reasoning_from.max(stored.reasoning_from),
            encrypted_from: self.encrypted_from.max(stored.encrypted_from),
            summary: self.summary.clone(),
        })
    }
}
