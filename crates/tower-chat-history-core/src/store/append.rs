//! Asking a store to write, and what it answers.

use crate::{
    compaction::{Compaction, CompactionVersion, Cut},
    exchange::Exchange,
    profile::Profile,
    revision::{Incarnation, Revision},
    seq::Seq,
};

/// One exchange to add to the log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Append {
    /// What the log must be for the exchange to be added.
    pub expect: Expect,
    /// The exchange.
    pub exchange: Exchange,
    /// A compaction to store in the same write.
    pub compact: Option<Compact>,
}

impl Append {
    /// Adds `exchange` if the log is as expected.
    #[must_use]
    pub const fn new(expect: Expect, exchange: Exchange) -> Self {
        Self { expect, exchange, compact: None }
    }

    /// Stores a compaction in the same write.
    #[must_use]
    pub fn compact(mut self, compact: Compact) -> Self {
        self.compact = Some(compact);
        self
    }
}

/// What an append expects of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no conversation. Otherwise: [`Conflict`](crate::StoreError::Conflict).
    Absent,
    /// The log is at this very revision, but for a [prune](crate::Prune) of its beginning. Otherwise:
    /// [`Conflict`](crate::StoreError::Conflict), or [`Gone`](crate::StoreError::Gone) when the incarnation has ended.
    Exactly(Revision),
    /// The log is in this incarnation, at any revision. Otherwise: [`Gone`](crate::StoreError::Gone).
    AnyIn(Incarnation),
    /// Nothing: the conversation is created if it is not there.
    AnyOrCreate,
}

impl Expect {
    /// Checks the log's revision (`None`: no conversation) against what is expected. Stores call this within the write.
    ///
    /// # Errors
    ///
    /// [`Conflict`](crate::StoreError::Conflict) or [`Gone`](crate::StoreError::Gone) as each variant says.
    pub fn check(self, current: Option<Revision>) -> Result<(), crate::store::StoreError> {
        let in_incarnation = |of: Incarnation| current.is_some_and(|revision| revision.incarnation() == of);
        match self {
            Self::AnyOrCreate => Ok(()),
            Self::Absent if current.is_none() => Ok(()),
            Self::Exactly(revision) if current.is_some_and(|current| current.has_same_end(revision)) => Ok(()),
            Self::AnyIn(incarnation) if in_incarnation(incarnation) => Ok(()),
            Self::Exactly(revision) if !in_incarnation(revision.incarnation()) => Err(crate::store::StoreError::Gone),
            Self::AnyIn(_) => Err(crate::store::StoreError::Gone),
            Self::Absent | Self::Exactly(_) => Err(crate::store::StoreError::Conflict { current }),
        }
    }
}

/// A compaction to store.
#[derive(Clone, Debug, PartialEq)]
pub struct Compact {
    /// Whose compaction it is.
    pub profile: Profile,
    /// The stored version it was made from: it is stored only while that one is still there.
    pub replaces: CompactionVersion,
    /// What it says.
    pub cut: Cut,
}

/// What became of a compaction.
#[derive(Clone, Debug, PartialEq)]
pub enum CompactOutcome {
    /// It was stored under this version, by this very call.
    Stored(CompactionVersion),
    /// It was not stored, and what is stored was left as it is: another call had stored another one meanwhile, or an
    /// equal one.
    ///
    /// `None` if no compaction is stored. For an append it is also `None` if the stored one cannot be read, or if this
    /// one could not be stored for a reason that is no [rule](crate::Cut::check): the exchange is stored all the same.
    Kept(Option<Compaction>),
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Appended {
    /// The log's revision after it.
    pub revision: Revision,
    /// Where the exchange stands.
    pub seq: Seq,
    /// Whether the exchange id was already in the log: nothing was stored, and `seq` is where it stands.
    pub duplicate: bool,
    /// What became of the compaction, if the append carried one and was no duplicate.
    pub compaction: Option<CompactOutcome>,
}

impl Appended {
    /// The exchange was stored at `seq`.
    #[must_use]
    pub const fn stored(revision: Revision, seq: Seq, compaction: Option<CompactOutcome>) -> Self {
        Self { revision, seq, duplicate: false, compaction }
    }

    /// The exchange was already there, at `seq`.
    #[must_use]
    pub const fn duplicate(revision: Revision, seq: Seq) -> Self {
        Self { revision, seq, duplicate: true, compaction: None }
    }
}
