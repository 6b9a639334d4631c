//! The requests to write to a store, and its answers.

use std::{fmt, sync::Arc};

use crate::{
    compaction::{Compaction, CompactionVersion},
    exchange::Exchange,
    profile::Profile,
    seq::{Epoch, Incarnation, Revision, Seq},
};

/// An exchange to add to the log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Append {
    /// The condition on the log under which the exchange is added.
    pub expect: Expect,
    /// The epoch that the [load](crate::Loaded::Absent) of the call returned. If the conversation was deleted or
    /// [erased](crate::Erase) since, the append is refused with [`Gone`](crate::StoreError::Gone), also if another call
    /// created the conversation again. If it is `None`, nothing is checked.
    ///
    /// A [truncation](crate::Truncate) to nothing is a deletion. An erasure counts from the call of
    /// [`bar`](crate::Erase::bar) on. A removal by [`erase_if`](crate::Erase::erase_if), such as an
    /// [expiry](crate::Expiry), does not count.
    pub since: Option<Epoch>,
    /// The position of the exchange if the append creates the conversation. Otherwise it has no effect.
    ///
    /// The first exchange of a log opens a turn. If the append creates the conversation and its exchange continues a
    /// position, also one before this one, the append is refused with
    /// [`ContinuesUnknown`](crate::StoreError::ContinuesUnknown).
    pub first: Seq,
    /// The exchange. A store that keeps its log in memory can share it. To change it, use [`Arc::make_mut`].
    pub exchange: Arc<Exchange>,
    /// A compaction to store in the same write.
    pub compact: Option<Compact>,
}

impl Append {
    /// Creates a request to add `exchange` if the log is as expected.
    #[must_use]
    pub fn new(expect: Expect, exchange: impl Into<Arc<Exchange>>) -> Self {
        Self { expect, since: None, first: Seq::FIRST, exchange: exchange.into(), compact: None }
    }

    /// Returns the same append without its compaction.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self { compact: None, exchange: Arc::clone(&self.exchange), ..*self }
    }

    /// Sets the epoch after which the conversation must not have been erased. The default is `None`: it may have been.
    #[must_use]
    pub const fn since(mut self, epoch: Option<Epoch>) -> Self {
        self.since = epoch;
        self
    }

    /// Sets the position at which the log begins if the append creates the conversation. The default is 0. A copy of a
    /// [pruned](crate::Prune) log needs another one, so that its positions stay the same.
    #[must_use]
    pub const fn beginning_at(mut self, first: Seq) -> Self {
        self.first = first;
        self
    }

    /// Adds a compaction, which is stored in the same write. The default is none.
    #[must_use]
    pub fn compact(mut self, compact: Compact) -> Self {
        self.compact = Some(compact);
        self
    }
}

/// The condition on the log under which an append is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no conversation. Otherwise the append is refused with [`Conflict`](crate::StoreError::Conflict).
    Absent,
    /// The log is at exactly this revision, apart from a [prune](crate::Prune) of its beginning. Otherwise the
    /// append is refused with [`Conflict`](crate::StoreError::Conflict), or with [`Gone`](crate::StoreError::Gone)
    /// if the incarnation has ended.
    Exactly(Revision),
    /// The log is in this incarnation, at any revision. Otherwise the append is refused with
    /// [`Gone`](crate::StoreError::Gone).
    AnyIn(Incarnation),
    /// No condition. If there is no conversation, the append creates it.
    AnyOrCreate,
}

impl Expect {
    /// Checks the condition against the log's revision (`None` if there is no conversation). Stores call this
    /// within the write.
    ///
    /// # Errors
    ///
    /// Returns [`Conflict`](crate::StoreError::Conflict) or [`Gone`](crate::StoreError::Gone), as documented at
    /// each variant.
    pub fn check(self, current: Option<Revision>) -> Result<(), crate::store::StoreError> {
        let incarnation = current.map(|revision| revision.incarnation());
        match self {
            Self::AnyOrCreate => Ok(()),
            Self::Absent if current.is_none() => Ok(()),
            Self::Exactly(revision) if current.is_some_and(|current| current.has_same_end(revision)) => Ok(()),
            Self::AnyIn(expected) if incarnation == Some(expected) => Ok(()),
            Self::Exactly(revision) if incarnation != Some(revision.incarnation()) => {
                Err(crate::store::StoreError::Gone)
            }
            Self::AnyIn(_) => Err(crate::store::StoreError::Gone),
            Self::Absent | Self::Exactly(_) => Err(crate::store::StoreError::Conflict { current }),
        }
    }
}

/// A compaction to store.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Compact {
    /// The profile whose compaction this is.
    pub profile: Profile,
    /// The version of the compaction that this one replaces, or [`CompactionVersion::NONE`]. This compaction is stored
    /// only if that version is still the stored one.
    pub replaces: CompactionVersion,
    /// The first exchange of the windows that the profile loads from now on. The writer guarantees that it opens a
    /// turn, unless it was [pruned](crate::Prune).
    pub window_start: Seq,
    /// The bytes that the writer keeps about the compaction. They contain no text of messages.
    pub state: Arc<[u8]>,
    /// Text that was made from messages, such as a summary, or `None`.
    pub derived: Option<Arc<[u8]>>,
}

impl Compact {
    /// Creates a request to store this compaction in a profile, if the stored one still has the version `replaces`.
    #[must_use]
    pub const fn new(
        profile: Profile,
        replaces: CompactionVersion,
        window_start: Seq,
        state: Arc<[u8]>,
        derived: Option<Arc<[u8]>>,
    ) -> Self {
        Self { profile, replaces, window_start, state, derived }
    }

    /// Returns the compaction that is stored under this version.
    #[must_use]
    pub fn stored_as(&self, version: CompactionVersion) -> Compaction {
        Compaction::new(version, self.window_start, Arc::clone(&self.state), self.derived.clone())
    }
}

impl fmt::Debug for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compact")
            .field("profile", &self.profile)
            .field("replaces", &self.replaces)
            .field("window_start", &self.window_start)
            .field("state_bytes", &self.state.len())
            .field("derived_bytes", &self.derived.as_ref().map(|derived| derived.len()))
            .finish()
    }
}

/// The outcome of storing a compaction.
#[derive(Clone, Debug, PartialEq)]
pub enum CompactOutcome {
    /// This call stored it, under this version.
    Stored(CompactionVersion),
    /// It was not stored, because the stored version is not the one that it replaces. Usually, another call has stored
    /// a compaction first, possibly an equal one.
    ///
    /// The value is the stored compaction, or `None` if there is none. For an append, it is also `None` if the stored
    /// compaction cannot be read, or if the new one cannot be stored: the exchange is stored in any case.
    Kept(Option<Compaction>),
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Appended {
    /// The log's revision after the append.
    pub revision: Revision,
    /// The position of the exchange.
    pub seq: Seq,
    /// `true` if the exchange id was already in the log: nothing was stored, and `seq` is the position of the
    /// existing exchange.
    pub duplicate: bool,
    /// The outcome for the compaction, if the append carried one and was not a duplicate.
    pub compaction: Option<CompactOutcome>,
}

impl Appended {
    /// Reports that the exchange was stored at `seq`.
    #[must_use]
    pub const fn stored(revision: Revision, seq: Seq, compaction: Option<CompactOutcome>) -> Self {
        Self { revision, seq, duplicate: false, compaction }
    }

    /// Reports that the exchange was already in the log, at `seq`.
    #[must_use]
    pub const fn duplicate(revision: Revision, seq: Seq) -> Self {
        Self { revision, seq, duplicate: true, compaction: None }
    }
}
