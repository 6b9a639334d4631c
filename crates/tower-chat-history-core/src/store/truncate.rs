//! Taking exchanges off the end of a log: what not every store can do.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, StoreError};
use crate::{conversation_id::ConversationId, revision::Revision, seq::Seq};

/// A store that can remove the end of a conversation's log: to ask a question again, to change a message and go on from
/// there, to take back what should not have been said.
///
/// # Contract
///
/// - **Conditional and in one step.** The log is cut only if it is at the very revision that the caller saw (a
///   [prune](crate::Prune) meanwhile does not count: positions stay). A caller that drops the future leaves a log that was
///   cut or one that was not.
/// - **A new incarnation.** What stays goes on in another incarnation. Appends and compactions that were made from the log
///   as it was are refused with [`Gone`](StoreError::Gone): an answer to a question that was removed does not land behind
///   the one that took its place. As after a deletion, only an append that [expects
///   nothing](crate::Expect::AnyOrCreate) is stored in any case.
/// - **Exchange ids.** Those of removed exchanges are free again. Those that stay are recognised as before.
/// - **Compactions.** Each profile's compaction becomes what [`Compaction::truncated_to`](crate::Compaction::truncated_to)
///   makes of it, or is removed, so that no summary tells of what was removed. One that cannot be read is removed too: it
///   might tell of it.
/// - **Any position.** One within a turn is legal and leaves the turn open: its calls are not answered yet. [`Seq::FIRST`]
///   leaves no log, and so no conversation: it is [absent](crate::Loaded::Absent), as if deleted; so does any position up to
///   the first of a pruned log. Where nothing stands at
///   the position, nothing is removed and the revision stays.
/// - **Gap-free.** The next exchange has the first position that was removed.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. A repeat with the same revision cuts nothing
///   twice: if the log was cut, it is refused with [`Gone`](StoreError::Gone).
///
/// The handle of a [`Conversation`](crate::Conversation) has `truncate` and `take_last` for such a store. The trait can be
/// used as `Arc<dyn Truncate>`, and the conformance suite proves a store that has it (see `Fixture::open_truncate` there).
#[async_trait]
pub trait Truncate: HistoryStore {
    /// Removes the exchanges from position `from` on, if the log is exactly at `expect`.
    ///
    /// # Errors
    ///
    /// [`Conflict`](StoreError::Conflict) when the log is at another revision of the incarnation,
    /// [`Gone`](StoreError::Gone) when that has ended, or when the store cannot be written. Nothing is removed by a refusal.
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError>;
}

/// What became of a truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// The log's revision after it; `None` if no exchange is left, and so no conversation.
    pub revision: Option<Revision>,
    /// How many exchanges were removed.
    pub removed: u64,
}

impl Truncated {
    /// So many exchanges were removed, and the log is at that revision.
    #[must_use]
    pub const fn new(revision: Option<Revision>, removed: u64) -> Self {
        Self { revision, removed }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate + ?Sized> Truncate for Arc<S> {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        (**self).truncate(id, expect, from).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Truncate>>, _: Option<&dyn Truncate>) {}
        fn is_store<S: Truncate + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Truncate>>();
    }
}
