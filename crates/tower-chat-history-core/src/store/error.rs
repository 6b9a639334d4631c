//! What can go wrong in a store.

use crate::{
    compaction::CompactionError, conversation_id::ConversationId, profile::Profile, revision::Revision, seq::Seq,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store's failure. It names positions, ids and sizes, never message text, and neither do its sources: all of them
/// are logged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log is not at the revision that the append expects.
    #[error("the conversation changed since it was loaded")]
    Conflict {
        /// The revision it is at, if the store knows it.
        current: Option<Revision>,
    },
    /// The incarnation has ended: the conversation was deleted since it was loaded, [cut](crate::Truncate), or pruned [without
    /// traces](crate::Derived::Erase).
    #[error("the conversation was deleted, truncated or pruned since it was loaded")]
    Gone,
    /// The exchange says that it continues one which the log never had.
    #[error("the exchange continues position {continues}, and the log goes on at {len}")]
    ContinuesUnknown {
        /// The position it names.
        continues: Seq,
        /// The position of the log's next exchange.
        len: u64,
    },
    /// The compaction breaks the rules of the log.
    #[error("the compaction is not allowed")]
    Compaction(#[from] CompactionError),
    /// A stored record cannot be read. Other conversations are not affected.
    #[error("exchange {seq} of conversation {conversation} cannot be read")]
    Corrupt {
        /// The conversation.
        conversation: ConversationId,
        /// The position of the record.
        seq: Seq,
        /// What is wrong with it.
        source: BoxError,
    },
    /// A stored compaction cannot be read. The log, other profiles and other conversations are not affected.
    #[error("the compaction of profile {profile} of conversation {conversation} cannot be read")]
    CorruptCompaction {
        /// The conversation.
        conversation: ConversationId,
        /// The profile.
        profile: Profile,
        /// What is wrong with it.
        source: BoxError,
    },
    /// The store's own limit is reached. Nothing was stored, and nothing that was stored is lost.
    #[error("the store is full: {used} of {limit} bytes are used, and {requested} more were asked for")]
    Full {
        /// Bytes in use.
        used: usize,
        /// Bytes that the append needs.
        requested: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The store cannot be reached for now: a connection is down, a lock was not had in time. Asking again may help.
    #[error("the store is not available")]
    Unavailable {
        /// What happened.
        source: BoxError,
    },
    /// The store answered with a failure that asking again will not mend.
    #[error("the store failed")]
    Backend {
        /// What happened.
        source: BoxError,
    },
}

impl StoreError {
    /// A failure that may pass.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable { source: source.into() }
    }

    /// A failure that will not pass by itself.
    pub fn backend(source: impl Into<BoxError>) -> Self {
        Self::Backend { source: source.into() }
    }

    /// Whether the same call may succeed a little later. An append is repeated under its exchange id.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// A short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Gone => "gone",
            Self::ContinuesUnknown { .. } => "continues_unknown",
            Self::Compaction(_) => "compaction",
            Self::Corrupt { .. } | Self::CorruptCompaction { .. } => "corrupt",
            Self::Full { .. } => "full",
            Self::Unavailable { .. } => "unavailable",
            Self::Backend { .. } => "backend",
        }
    }
}
