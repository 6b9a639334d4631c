//! The errors of stores.

use crate::{
    attachment::AttachmentError, causes::Causes, compaction::CompactionError, conversation_id::ConversationId,
    profile::Profile, revision::Revision, seq::Seq,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a store.
///
/// It contains positions, ids and sizes, and never message text. The same must hold for its sources, because its
/// `Display` includes their text, and applications log it. `Display` does not show conversation ids, because they may
/// name users.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The log is not at the revision that the append expects.
    #[error("the conversation changed since it was loaded")]
    Conflict {
        /// The log's revision, if the store knows it.
        current: Option<Revision>,
    },
    /// The incarnation has ended: since it was loaded, the conversation was deleted, [truncated](crate::Truncate), or
    /// [pruned with its derived data](crate::Derived::Erase).
    #[error("the conversation was deleted, truncated or pruned since it was loaded")]
    Gone,
    /// The exchange continues a position that the log never had.
    #[error("the exchange continues position {continues}, but the next position of the log is {len}")]
    ContinuesUnknown {
        /// The position that the exchange continues.
        continues: Seq,
        /// The position of the log's next exchange.
        len: u64,
    },
    /// The compaction breaks the rules for compactions.
    #[error("the compaction is not allowed: {0}")]
    Compaction(#[from] CompactionError),
    /// The attachment breaks the rules for attachments.
    #[error("the attachment is not allowed: {0}")]
    Attachment(#[from] AttachmentError),
    /// A stored exchange cannot be read. Other conversations are not affected.
    #[error("exchange {seq} cannot be read: {}", Causes(&**source))]
    Corrupt {
        /// The conversation.
        conversation: ConversationId,
        /// The position of the exchange.
        seq: Seq,
        /// The cause.
        source: BoxError,
    },
    /// A stored compaction cannot be read. The log, other profiles and other conversations are not affected.
    #[error("the compaction of profile {profile} cannot be read: {}", Causes(&**source))]
    CorruptCompaction {
        /// The conversation.
        conversation: ConversationId,
        /// The profile.
        profile: Profile,
        /// The cause.
        source: BoxError,
    },
    /// The call would exceed the store's limit. It stored nothing and removed nothing.
    #[error("the store is full: {used} of {limit} bytes are used, and {requested} more are needed")]
    Full {
        /// The number of bytes in use.
        used: usize,
        /// The number of bytes that the call needs.
        requested: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The store cannot be reached at the moment: for example, a connection is down or a lock timed out. Retrying may
    /// help.
    #[error("the store is not available: {}", Causes(&**source))]
    Unavailable {
        /// The cause.
        source: BoxError,
    },
    /// The store failed in a way that retrying will not fix.
    #[error("the store failed: {}", Causes(&**source))]
    Backend {
        /// The cause.
        source: BoxError,
    },
}

impl StoreError {
    /// Creates the error for a failure that may go away by itself.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable { source: source.into() }
    }

    /// Creates the error for a failure that will not go away by itself.
    pub fn backend(source: impl Into<BoxError>) -> Self {
        Self::Backend { source: source.into() }
    }

    /// Returns `true` if the same call may succeed later. Repeat an append under its exchange id.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Gone => "gone",
            Self::ContinuesUnknown { .. } => "continues_unknown",
            Self::Compaction(_) => "compaction",
            Self::Attachment(_) => "attachment",
            Self::Corrupt { .. } | Self::CorruptCompaction { .. } => "corrupt",
            Self::Full { .. } => "full",
            Self::Unavailable { .. } => "unavailable",
            Self::Backend { .. } => "backend",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the connection broke")]
    struct Broken(#[source] std::io::Error);

    fn broken() -> Broken {
        Broken(std::io::Error::other("connection reset"))
    }

    #[test]
    fn display_includes_the_causes() {
        let conversation = ConversationId::new(["acme"]).unwrap();
        let (seq, profile) = (Seq::new(7), Profile::default());
        let exchange = StoreError::Corrupt { conversation: conversation.clone(), seq, source: Box::new(broken()) };
        let compaction = StoreError::CorruptCompaction { conversation, profile, source: Box::new(broken()) };
        for (error, text) in [
            (StoreError::unavailable(broken()), "the store is not available"),
            (StoreError::backend(broken()), "the store failed"),
            (exchange, "exchange 7 cannot be read"),
            (compaction, "the compaction of profile default cannot be read"),
        ] {
            assert_eq!(error.to_string(), format!("{text}: the connection broke: connection reset"));
            assert!(error.source().is_some_and(<dyn Error>::is::<Broken>), "the source can still be downcast");
        }
        let error = StoreError::from(CompactionError::GoesBack);
        let text = "the compaction is not allowed: a position of the compaction is before the stored one";
        assert_eq!(error.to_string(), text);
    }
}
