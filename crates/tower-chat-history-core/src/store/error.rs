//! The errors of stores.

use std::{error::Error, fmt};

use super::removed::ByStore;
use crate::{
    conversation_id::ConversationId,
    profile::Profile,
    seq::{Revision, Seq},
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
    /// The incarnation has ended: since it was loaded, the conversation was deleted, [erased](crate::Erase),
    /// [truncated](crate::Truncate), or [pruned with its derived data](crate::Derived::Erase). If there was no
    /// conversation, its id or a prefix of it was erased [since](crate::Append::since).
    #[error("the conversation was deleted, erased, truncated or pruned since it was loaded")]
    Gone,
    /// The exchange continues a position that the log never had. It may also be the [first](crate::Append::first) one of
    /// a log, which must open a turn.
    #[error("the exchange continues position {continues}, which the log never had: its next position is {len}")]
    ContinuesUnknown {
        /// The position that the exchange continues.
        continues: Seq,
        /// The position of the log's next exchange.
        len: u64,
    },
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
    ///
    /// A store returns this for a damaged version or position. It does not look into the bytes, so their readers return
    /// it for those: the engine, an export, or a wrapper that decrypts.
    #[error("the compaction of profile {profile} cannot be read: {}", Causes(&**source))]
    CorruptCompaction {
        /// The conversation.
        conversation: ConversationId,
        /// The profile.
        profile: Profile,
        /// The cause.
        source: BoxError,
    },
    /// An exchange is [encrypted](crate::Exchange::sealed), and no wrapper of the store decrypts it.
    #[error("exchange {seq} is encrypted, and the store is used without the wrapper that decrypts it")]
    Sealed {
        /// The position of the exchange.
        seq: Seq,
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
    /// A page of an erasure failed after a part of it was erased.
    #[error("{source}")]
    PartlyErased {
        /// The numbers of what was removed. A repetition of the call does not find it again.
        removed: Box<ByStore>,
        /// The cause. It is never of this kind.
        source: Box<StoreError>,
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

    /// Adds what an [erasure](crate::Erase::erase) removed before it failed with this error. Without any number, the
    /// error stays as it is.
    #[must_use]
    pub fn after_erasing(self, removed: ByStore) -> Self {
        let (before, source) = self.into_erased();
        let mut all = removed;
        all += before;
        if all.total().is_nothing() {
            return source;
        }
        Self::PartlyErased { removed: Box::new(all), source: Box::new(source) }
    }

    /// Returns what was removed before this error, and the error of the part that failed.
    #[must_use]
    pub fn into_erased(self) -> (ByStore, Self) {
        match self {
            Self::PartlyErased { removed, source } => (*removed, *source),
            error => (ByStore::default(), error),
        }
    }

    /// Returns `true` if the same call may succeed later. Repeat an append under its exchange id.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::PartlyErased { source, .. } => matches!(**source, Self::Unavailable { .. }),
            error => matches!(error, Self::Unavailable { .. }),
        }
    }

    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "conflict",
            Self::Gone => "gone",
            Self::ContinuesUnknown { .. } => "continues_unknown",
            Self::Corrupt { .. } | Self::CorruptCompaction { .. } => "corrupt",
            Self::Sealed { .. } => "sealed",
            Self::Full { .. } => "full",
            Self::Unavailable { .. } => "unavailable",
            Self::Backend { .. } => "backend",
            Self::PartlyErased { .. } => "partly_erased",
        }
    }
}

/// Shows an error and its sources, outermost first, separated by colons.
///
/// The text of many errors already ends with the text of their source. Such a source is not shown again.
pub(crate) struct Causes<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        f.write_str(&shown)?;
        let mut next = self.0.source();
        while let Some(source) = next {
            let text = source.to_string();
            if !shown.ends_with(&text) {
                write!(f, ": {text}")?;
                shown = text;
            }
            next = source.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;
    use crate::store::Removed;

    #[derive(Debug, thiserror::Error)]
    #[error("the connection broke")]
    struct Broken(#[source] std::io::Error);

    fn broken() -> Broken {
        Broken(std::io::Error::other("connection reset"))
    }

    #[test]
    fn numbers_of_an_erasure_that_failed_twice_are_added() {
        let one = || ByStore::of("a", Removed { conversations: 1, ..Removed::default() });
        let error = StoreError::unavailable(broken()).after_erasing(ByStore::default());
        assert!(matches!(error, StoreError::Unavailable { .. }), "nothing was erased: {error:?}");
        let text = error.to_string();
        let error = error.after_erasing(one()).after_erasing(one());
        assert_eq!((error.to_string(), error.is_retryable()), (text, true));
        let (removed, source) = error.into_erased();
        assert_eq!(removed.total().conversations, 2);
        assert!(matches!(source, StoreError::Unavailable { .. }), "{source:?}");
        assert!(!StoreError::Gone.after_erasing(one()).is_retryable());
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
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Step {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn shown(texts: &[&'static str]) -> String {
        let error = texts.iter().rev().fold(None, |source, text| Some(Box::new(Step { text, source })));
        Causes(&*error.unwrap()).to_string()
    }

    #[test]
    fn sources_are_shown_outermost_first() {
        assert_eq!(shown(&["a"]), "a");
        assert_eq!(shown(&["a", "b", "c"]), "a: b: c");
    }

    #[test]
    fn a_source_that_was_shown_already_is_not_repeated() {
        assert_eq!(shown(&["a: b: c", "b: c", "c"]), "a: b: c");
        assert_eq!(shown(&["a", "b: c", "c", "d"]), "a: b: c: d");
    }
}
