//! Positions in a log, its revisions, and the erasures that a caller knows of.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::invalid::InvalidValue;

/// The position of an exchange in its conversation's log: 0 for the first, without gaps. It does not change when
/// the exchanges before it are [pruned](crate::Prune).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// The position of a log's first exchange.
    pub const FIRST: Self = Self(0);

    /// Creates the position with this index, counted in exchanges from 0.
    #[must_use]
    pub const fn new(index: u64) -> Self {
        Self(index)
    }

    /// Returns the index, counted in exchanges from 0.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a conversation, as a random id. It begins with the first append, and ends with a deletion, a
/// [truncation](crate::Truncate) or an [erasing prune](crate::Derived::Erase). A truncation and an erasing prune begin
/// the next incarnation at once.
///
/// An append or a compaction that was begun in one incarnation is never stored in another one, so a call in flight
/// cannot bring back a conversation that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(Uuid);

impl Incarnation {
    /// Creates a random incarnation. Stores do so for a conversation's first append, and for the log that remains
    /// after a truncation or an erasing prune.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Creates the incarnation with these bytes. Stores use it to read back the incarnation they wrote.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_simple().fmt(f)
    }
}

/// The version of a conversation's log.
///
/// Every change of the log changes it. Revisions can only be compared for equality: they have no order. Compactions are
/// derived records and do not change it. Within its incarnation, a revision also says at which position the log
/// [begins](Self::first) and which position the [next](Self::next) exchange gets.
///
/// The text form is `<incarnation>.<version>`, followed by `.<first>` if the log was [pruned](crate::Prune). It is
/// ASCII and parses back, so it can be an `ETag`.
///
/// ```
/// use tower_chat_history_core::{Incarnation, Revision};
///
/// let revision = Revision::new(Incarnation::random(), 7);
/// assert_eq!(revision.to_string().parse(), Ok(revision));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Revision {
    incarnation: Incarnation,
    version: u64,
    first: Seq,
}

impl Revision {
    /// Creates the revision of a log in this incarnation whose next exchange gets the position `version`. The log
    /// begins at position 0, unless [`beginning_at`](Self::beginning_at) sets another one.
    ///
    /// Without truncations, `version` is the number of appends to the log.
    #[must_use]
    pub const fn new(incarnation: Incarnation, version: u64) -> Self {
        Self { incarnation, version, first: Seq::FIRST }
    }

    /// Sets the position at which the log begins, after it was [pruned](crate::Prune).
    #[must_use]
    pub const fn beginning_at(mut self, first: Seq) -> Self {
        self.first = first;
        self
    }

    /// Returns the incarnation that this revision belongs to.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Returns the number to store next to the incarnation: the index of [`next`](Self::next).
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Returns the position that the log's next exchange gets. This is part of the contract of every store: the log
    /// has the exchanges from [`first`](Self::first) to the one before this position, without gaps.
    #[must_use]
    pub const fn next(&self) -> Seq {
        Seq::new(self.version)
    }

    /// Returns the number of exchanges in the log.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.version.saturating_sub(self.first.get())
    }

    /// Returns `true` if the log has no exchange. No store returns such a revision: the conversation is absent
    /// instead.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the position at which the log begins: 0, unless it was [pruned](crate::Prune).
    #[must_use]
    pub const fn first(&self) -> Seq {
        self.first
    }

    /// Returns `true` if both revisions are of the same incarnation, and nothing was appended between them. (The
    /// beginning of the log may have been [pruned](crate::Prune).)
    #[must_use]
    pub fn has_same_end(&self, other: Self) -> bool {
        self.incarnation == other.incarnation && self.version == other.version
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.incarnation, self.version)?;
        if self.first == Seq::FIRST { Ok(()) } else { write!(f, ".{}", self.first) }
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({self})")
    }
}

impl FromStr for Revision {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (incarnation, version) = text.split_once('.').ok_or(InvalidValue::Revision)?;
        let incarnation = Uuid::try_parse(incarnation).map_err(|_| InvalidValue::Revision)?;
        let (version, first) = version.split_once('.').unwrap_or((version, "0"));
        let version = version.parse().map_err(|_| InvalidValue::Revision)?;
        let first = first.parse().map_err(|_| InvalidValue::Revision)?;
        let revision = Self::new(Incarnation(incarnation), version).beginning_at(Seq::new(first));

        // Only the form that `Display` writes is accepted, so each revision has one text.
        if revision.to_string() == text { Ok(revision) } else { Err(InvalidValue::Revision) }
    }
}

/// A point in a store's sequence of erasures. A load that finds no conversation [returns](crate::Loaded::Absent) the
/// current one, and the first turn of a conversation [names](crate::Append::since) it. The store then refuses the turn
/// if the conversation was erased in between.
///
/// An epoch is valid for one store and one conversation. Do not compare epochs of different conversations: a store may
/// count the erasures of several groups of conversations separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch of a store that has never erased anything.
    pub const FIRST: Self = Self(0);

    /// Creates the epoch with this number. Stores use it to read back the epoch they wrote.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number to store.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch after one more erasure.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pruned_log_is_another_revision_with_the_same_end() {
        let whole = Revision::new(Incarnation::random(), 3);
        let pruned = whole.beginning_at(Seq::new(2));
        assert_ne!(whole, pruned);
        assert!(whole.has_same_end(pruned) && pruned.has_same_end(whole));
        assert!(!whole.has_same_end(Revision::new(whole.incarnation(), 4)));
        assert!(!whole.has_same_end(Revision::new(Incarnation::random(), 3)));
    }

    #[test]
    fn only_the_canonical_text_parses() {
        for text in ["00112233445566778899aabbccddeeff.3", "00112233445566778899aabbccddeeff.30.7"] {
            assert_eq!(text.parse::<Revision>().unwrap().to_string(), text);
        }
        for wrong in [
            "",
            "x",
            "00112233445566778899aabbccddeeff",
            "00112233445566778899AABBCCDDEEFF.3",
            "00112233445566778899aabbccddeeff.03",
            "00112233445566778899aabbccddeeff.3.0",
            "00112233445566778899aabbccddeeff.3.1.2",
        ] {
            assert_eq!(wrong.parse::<Revision>(), Err(InvalidValue::Revision), "{wrong}");
        }
    }
}
