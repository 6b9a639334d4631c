//! Versions of a conversation.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::seq::Seq;

/// One life of a conversation: drawn at random by its first append, ended by its deletion, or by a
/// [truncation](crate::Truncate) or a [prune without traces](crate::Derived::Erase), with which the next one begins.
///
/// An append or a compaction that was begun in one life can never land in another one, so what is in flight when a
/// conversation is deleted cannot bring it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(Uuid);

impl Incarnation {
    /// A new random incarnation, for stores to give to a conversation's first append and to what a truncation or a prune
    /// without traces leaves.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The incarnation with these bytes, for stores that read back what they wrote.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The bytes to store.
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
/// It changes with every change of the log, and two revisions are compared for equality only: neither is the newer one.
/// Compactions are derived records and do not change it. Within its incarnation it says at which position the log
/// [begins](Self::first) and which position the [next](Self::next) exchange gets.
///
/// The text form, `incarnation.version`, with `.first` behind it if the log was [pruned](crate::Prune), is ASCII and parses
/// back: it can serve as an `ETag`.
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
    /// The revision of a log in this incarnation whose next exchange gets the position `version`. The log begins at
    /// position 0 unless it is said to [begin later](Self::beginning_at).
    ///
    /// Without truncations, `version` is the number of appends to the log.
    #[must_use]
    pub const fn new(incarnation: Incarnation, version: u64) -> Self {
        Self { incarnation, version, first: Seq::FIRST }
    }

    /// The revision of a log that begins at another position, since it was [pruned](crate::Prune).
    #[must_use]
    pub const fn beginning_at(mut self, first: Seq) -> Self {
        self.first = first;
        self
    }

    /// The life of the conversation that this revision belongs to.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The number that a store keeps beside the incarnation: the index of [`next`](Self::next).
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The position that the log's next exchange gets. It is a part of the contract of every store: the newest exchange
    /// has the position before it, and the log has the exchanges from [`first`](Self::first) on up to that one, without
    /// gaps.
    #[must_use]
    pub const fn next(&self) -> Seq {
        Seq::new(self.version)
    }

    /// How many exchanges the log has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.version.saturating_sub(self.first.get())
    }

    /// Whether the log has no exchange. No store has such a log: the conversation is then absent.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position at which the log begins: 0 unless it was [pruned](crate::Prune).
    #[must_use]
    pub const fn first(&self) -> Seq {
        self.first
    }

    /// Whether two revisions are those of one log with the same newest exchange: nothing was appended between them, at most
    /// the beginning was [pruned](crate::Prune).
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
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (incarnation, version) = text.split_once('.').ok_or(RevisionError)?;
        let incarnation = Uuid::try_parse(incarnation).map_err(|_| RevisionError)?;
        let (version, first) = version.split_once('.').unwrap_or((version, "0"));
        let number = |text: &str| text.parse().map_err(|_| RevisionError);
        let revision = Self::new(Incarnation(incarnation), number(version)?).beginning_at(Seq::new(number(first)?));
        // Only the form that `Display` writes is read: one revision has one text.
        if revision.to_string() == text { Ok(revision) } else { Err(RevisionError) }
    }
}

/// A text that is no revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a revision: expected 32 hexadecimal digits, a dot and a number, and another of both if pruned")]
pub struct RevisionError;

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
            assert_eq!(wrong.parse::<Revision>(), Err(RevisionError), "{wrong}");
        }
    }
}
