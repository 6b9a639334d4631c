//! Compactions: derived records that define which part of the log is sent.

use serde::{Deserialize, Serialize};

use crate::{memory::block, seq::Seq};

/// The version number of a profile's stored compaction, or 0 if there is none. Versions can only be compared for
/// equality.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CompactionVersion(u64);

impl CompactionVersion {
    /// The version if no compaction is stored.
    pub const NONE: Self = Self(0);

    /// Creates the version with this number.
    #[must_use]
    pub const fn new(version: u64) -> Self {
        Self(version)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the version that replaces this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A stored compaction of one profile.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Compaction {
    /// The version number.
    pub version: CompactionVersion,
    /// The positions and the summary.
    pub cut: Cut,
    /// The cut that this one replaced, if it is known. A turn that began under it ends under it, so that its prompts
    /// stay prefixes of each other.
    pub replaced: Option<Box<Cut>>,
}

impl Compaction {
    /// Creates the compaction of this version. The cut that it replaced is not known.
    #[must_use]
    pub const fn new(version: CompactionVersion, cut: Cut) -> Self {
        Self { version, cut, replaced: None }
    }

    /// Sets the cut that this compaction replaced. The default is `None`.
    #[must_use]
    pub fn replacing(mut self, replaced: Option<Cut>) -> Self {
        self.replaced = replaced.map(Box::new);
        self
    }

    /// Returns an estimate of the memory that this compaction takes, in bytes: its summaries and a constant.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + self.cut.memory()
            + self.replaced.as_ref().map_or(0, |cut| block(size_of::<Cut>()) + cut.memory())
    }

    /// Returns the compaction to store when the log is [truncated](crate::Truncate) to its first `len` exchanges,
    /// or `None` if it must be removed. Stores call this within the truncation.
    ///
    /// If the cut must be removed, the cut that it replaced takes its place, as far as that one is still right. The
    /// provider still cannot read the encrypted elements that remain, so [`Cut::encrypted_from`] stays in any case.
    ///
    /// The result always has the next version, even if the cut is unchanged, so that no compaction made from the
    /// log before the truncation can replace it.
    #[must_use]
    pub fn truncated_to(&self, len: u64) -> Option<Self> {
        let replaced = self.replaced.as_ref().and_then(|cut| cut.truncated_to(len));
        let (cut, replaced) = match (self.cut.truncated_to(len), replaced) {
            (Some(cut), replaced) => (cut, replaced),
            (None, Some(mut replaced)) => {
                replaced.encrypted_from = self.cut.encrypted_from.min(Seq::new(len));
                (replaced, None)
            }
            (None, None) => (Cut::without_encrypted(self.cut.encrypted_from.min(Seq::new(len)))?, None),
        };
        Some(Self::new(self.version.next(), cut).replacing(replaced))
    }

    /// Returns the compaction to store when the log is pruned with [`Derived::Erase`](crate::Derived::Erase), or
    /// `None` if it must be removed because it has a summary, which describes removed exchanges. Of such a compaction,
    /// only [`Cut::encrypted_from`] stays. Stores call this within the prune.
    #[must_use]
    pub fn without_derived(&self) -> Option<Self> {
        let (cut, replaced) = match self.cut.summary {
            None => (self.cut.clone(), self.replaced.as_deref().filter(|cut| cut.summary.is_none()).cloned()),
            Some(_) => (Cut::without_encrypted(self.cut.encrypted_from)?, None),
        };
        Some(Self::new(self.version.next(), cut).replacing(replaced))
    }
}

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

/// A text that summarizes the beginning of a conversation.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The summary.
    pub text: String,
    /// The end of the covered exchanges: the summary covers every exchange before this position.
    pub covers_to: Seq,
    /// Its size in tokens, if it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Summary {
    /// Creates a summary of every exchange before `covers_to`.
    #[must_use]
    pub fn new(text: impl Into<String>, covers_to: Seq) -> Self {
        Self { text: text.into(), covers_to, tokens: None, model: None }
    }
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary")
            .field("covers_to", &self.covers_to)
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
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

    /// Creates a cut that only leaves out encrypted elements before this position. Returns `None` for the first
    /// position, before which there are none.
    fn without_encrypted(before: Seq) -> Option<Self> {
        let mut cut = Self::window_from(Seq::FIRST);
        cut.encrypted_from = before;
        (before > Seq::FIRST).then_some(cut)
    }

    /// Returns the position before which the summary covers every exchange, or [`Seq::FIRST`] if there is no
    /// summary.
    #[must_use]
    pub fn covers_to(&self) -> Seq {
        self.summary.as_ref().map_or(Seq::FIRST, |summary| summary.covers_to)
    }

    /// Checks that this cut may replace `stored` in a log of `len` exchanges. Stores call this before they write a
    /// cut.
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

    /// Returns an estimate of the memory of its summary, in bytes.
    fn memory(&self) -> usize {
        let Some(Summary { text, model, .. }) = &self.summary else { return 0 };
        block(text.capacity()) + model.as_ref().map_or(0, |model| block(model.capacity()))
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

/// A violation of the rules for compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// A position is before the stored one.
    #[error("a position of the compaction is before the stored one")]
    GoesBack,
    /// A position is beyond the end of the log.
    #[error("a position of the compaction is beyond the end of the log")]
    BeyondLog,
    /// The window would start within a turn.
    #[error("the window must start with an exchange that opens a turn, which exchange {seq} does not")]
    NotAnOpening {
        /// The position at which it would start.
        seq: Seq,
    },
    /// The summary covers exchanges that are still in the window.
    #[error("the summary covers exchanges that are still in the window")]
    CoversWindow,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(window: u64, rounds: u64, covers: Option<u64>) -> Cut {
        Cut {
            window_start: Seq::new(window),
            rounds_start: Seq::new(rounds),
            cleared_before: Seq::FIRST,
            recalled_from: Seq::FIRST,
            reasoning_from: Seq::FIRST,
            encrypted_from: Seq::FIRST,
            summary: covers.map(|to| Summary::new("s", Seq::new(to))),
        }
    }

    #[test]
    fn positions_never_decrease() {
        let stored = cut(4, 6, Some(2));
        for back in [cut(3, 6, Some(2)), cut(4, 5, Some(2)), cut(4, 6, Some(1)), cut(4, 6, None)] {
            assert_eq!(back.check(Some(&stored), 10, |_| true), Err(CompactionError::GoesBack), "{back:?}");
        }
        assert_eq!(stored.check(Some(&stored), 10, |_| true), Ok(()));
        let mut recalled = stored.clone();
        recalled.recalled_from = Seq::new(10);
        assert_eq!(recalled.check(Some(&stored), 10, |_| true), Ok(()));
        assert_eq!(stored.check(Some(&recalled), 10, |_| true), Err(CompactionError::GoesBack));
        assert_eq!(recalled.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
        let mut reasoning = stored.clone();
        reasoning.reasoning_from = Seq::new(10);
        assert_eq!(reasoning.check(Some(&stored), 10, |_| true), Ok(()));
        assert_eq!(stored.check(Some(&reasoning), 10, |_| true), Err(CompactionError::GoesBack));
        assert_eq!(reasoning.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
        let mut encrypted = stored.clone();
        encrypted.encrypted_from = Seq::new(10);
        assert_eq!(encrypted.check(Some(&stored), 10, |_| true), Ok(()));
        assert_eq!(stored.check(Some(&encrypted), 10, |_| true), Err(CompactionError::GoesBack));
        assert_eq!(encrypted.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
    }

    #[test]
    fn windows_start_at_an_opening_within_the_log() {
        assert_eq!(
            cut(3, 3, None).check(None, 4, |seq| seq != Seq::new(3)),
            Err(CompactionError::NotAnOpening { seq: Seq::new(3) })
        );
        assert_eq!(cut(4, 4, None).check(None, 4, |_| true), Err(CompactionError::BeyondLog));
        assert_eq!(cut(1, 5, None).check(None, 4, |_| true), Err(CompactionError::BeyondLog));
        assert_eq!(cut(1, 4, Some(2)).check(None, 4, |_| true), Err(CompactionError::CoversWindow));
    }

    #[test]
    fn a_finished_summary_replaces_one_that_covers_less() {
        let finished = cut(4, 4, Some(4));
        let merged = finished.merged_onto(&cut(6, 7, None)).unwrap();
        assert_eq!(merged, cut(6, 7, Some(4)));
        assert_eq!(finished.merged_onto(&cut(6, 7, Some(3))), Some(cut(6, 7, Some(4))));
        assert_eq!(finished.merged_onto(&cut(6, 7, Some(4))), None);
        assert_eq!(finished.merged_onto(&cut(6, 7, Some(5))), None);
        let (mut repaired, mut expected) = (cut(6, 7, None), cut(6, 7, Some(4)));
        (repaired.encrypted_from, expected.encrypted_from) = (Seq::new(5), Seq::new(5));
        assert_eq!(finished.merged_onto(&repaired), Some(expected));
    }

    #[test]
    fn a_truncated_cut_ends_with_the_log() {
        let mut whole = cut(4, 8, Some(2));
        (whole.cleared_before, whole.recalled_from, whole.reasoning_from) = (Seq::new(6), Seq::new(7), Seq::new(5));
        whole.encrypted_from = Seq::new(7);
        assert_eq!(whole.truncated_to(8), Some(whole.clone()));
        for len in [7, 6, 5] {
            let mut lowered = cut(4, len, Some(2));
            lowered.cleared_before = Seq::new(len.min(6));
            lowered.recalled_from = Seq::new(len.min(7));
            lowered.reasoning_from = Seq::new(5);
            lowered.encrypted_from = Seq::new(len.min(7));
            assert_eq!(whole.truncated_to(len), Some(lowered.clone()));
            assert_eq!(lowered.check(None, len, |seq| seq == Seq::new(4)), Ok(()), "it obeys the rules of the log");
        }
        for len in 0..5 {
            assert_eq!(whole.truncated_to(len), None, "the window's start was removed");
        }
        assert_eq!(Cut::default().truncated_to(1), Some(Cut::default()));
        assert_eq!(Cut::default().truncated_to(0), None);
    }

    #[test]
    fn a_summary_of_removed_exchanges_is_removed() {
        // No store has such a cut, but a stored summary is not trusted either.
        assert_eq!(cut(1, 1, Some(4)).truncated_to(3), None);
        assert_eq!(cut(3, 3, Some(3)).truncated_to(3), None);
        assert!(cut(3, 3, Some(3)).truncated_to(4).is_some());
    }

    #[test]
    fn a_remaining_compaction_has_another_version() {
        let version = CompactionVersion::new(4);
        let stays = Compaction::new(version, cut(1, 3, Some(1))).truncated_to(2);
        assert_eq!(stays, Some(Compaction::new(version.next(), cut(1, 2, Some(1)))));
        let stays = Compaction::new(version, cut(1, 3, None)).without_derived();
        assert_eq!(stays, Some(Compaction::new(version.next(), cut(1, 3, None))));
        assert_eq!(Compaction::new(version, cut(1, 3, Some(1))).without_derived(), None);
    }

    #[test]
    fn what_the_provider_cannot_read_stays_left_out_without_the_rest_of_the_cut() {
        let version = CompactionVersion::new(4);
        let encrypted = |mut cut: Cut, from: u64| {
            cut.encrypted_from = Seq::new(from);
            cut
        };
        let removed = Compaction::new(version, encrypted(cut(4, 6, Some(4)), 5));
        for len in 1..5 {
            let left = encrypted(Cut::default(), len);
            assert_eq!(left.check(None, len, |_| false), Ok(()), "it obeys the rules of the log");
            assert_eq!(removed.truncated_to(len), Some(Compaction::new(version.next(), left)));
        }
        assert_eq!(removed.truncated_to(0), None);
        let left = Compaction::new(version.next(), encrypted(Cut::default(), 5));
        assert_eq!(removed.without_derived(), Some(left));
        let kept = Compaction::new(version, encrypted(cut(4, 6, None), 5));
        assert_eq!(kept.without_derived().unwrap().cut, kept.cut);
        let replacing = removed.replacing(Some(cut(1, 2, None)));
        assert_eq!(replacing.truncated_to(3).unwrap().cut, encrypted(cut(1, 2, None), 3));
    }

    #[test]
    fn the_replaced_cut_follows_the_same_rules() {
        let compaction = |cut, replaced| Compaction::new(CompactionVersion::new(4), cut).replacing(Some(replaced));
        let both = compaction(cut(3, 6, Some(3)), cut(1, 5, Some(1)));
        assert_eq!(both.truncated_to(4).unwrap().replaced.as_deref(), Some(&cut(1, 4, Some(1))));
        let late = compaction(cut(1, 6, Some(1)), cut(1, 5, Some(5)));
        assert_eq!(late.truncated_to(4).unwrap().replaced, None, "its summary covers removed exchanges");
        let both = compaction(cut(3, 6, None), cut(1, 5, None));
        assert_eq!(both.without_derived().unwrap().replaced.as_deref(), Some(&cut(1, 5, None)));
        let summarized = compaction(cut(3, 6, None), cut(1, 5, Some(1)));
        assert_eq!(summarized.without_derived().unwrap().replaced, None);
    }

    #[test]
    fn debug_of_a_summary_shows_no_text() {
        assert!(
            !format!("{:?}", Cut { summary: Some(Summary::new("secret", Seq::FIRST)), ..Cut::default() })
                .contains("secret")
        );
    }
}
