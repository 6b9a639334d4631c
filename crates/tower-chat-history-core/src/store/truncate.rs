//! Removal of the end of a log, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Compact, HistoryStore, StoreError};
use crate::{
    conversation_id::ConversationId,
    seq::{Revision, Seq},
};

/// A store that can remove the end of a conversation's log: to ask a question again, to change a message and
/// continue from there, or to retract a message.
///
/// # Contract
///
/// - **Conditional and in one step.** The log is truncated only if it is at exactly the revision that the caller
///   saw. (A [prune](crate::Prune) since then does not count, because positions stay the same.) If the caller drops
///   the future, the log was truncated or it was not.
/// - **A new incarnation.** The remaining exchanges continue in a new incarnation. Appends and compactions that were
///   made from the log before the truncation are refused with [`Gone`](StoreError::Gone), so that a reply to a removed
///   question is not stored after the question that replaced it. Only an append with [no
///   condition](crate::Expect::AnyOrCreate) is stored nevertheless, as after a deletion.
/// - **Exchange ids.** The ids of removed exchanges may be used again. The ids of the remaining exchanges are still
///   recognized.
/// - **Compactions** are removed, because they might describe removed exchanges. Only one can stay: the caller passes
///   what is still right of the compaction that it has loaded. It replaces the stored one, under the next version. If
///   another version is stored, that one is removed as well. Other profiles compact anew.
/// - **Any position.** A position within a turn is allowed and leaves the turn open: its tool calls have no results
///   yet. If there is no exchange at the position, nothing is removed, not even a compaction, and the revision stays
///   the same.
/// - **A truncation to nothing is a deletion.** [`Seq::FIRST`] removes the whole log, and with it the conversation,
///   which is then [absent](crate::Loaded::Absent). In a pruned log, any position up to its first one has the same
///   effect. As after a [deletion](HistoryStore::delete), first turns whose load came before are refused with
///   [`Gone`](StoreError::Gone). If the truncation is refused, they are not, unless another call changes the log at the
///   same time.
/// - **Gap-free.** The next exchange gets the first position that was removed.
/// - **Repeatable.** An error other than a refusal leaves the outcome open. Repeating the call with the same
///   revision never removes anything twice: if the log was truncated, the repeat is refused with
///   [`Gone`](StoreError::Gone).
///
/// For such a store, [`Conversation`](crate::Conversation) has the methods `truncate` and `take_last`. The trait can be
/// used as `Arc<dyn Truncate>`. To test it with the conformance suite, add the store to the handle with
/// `Handle::truncate`.
#[async_trait]
pub trait Truncate: HistoryStore {
    /// Removes the exchanges from position `from` on, if the log is exactly at `expect`. All compactions are removed,
    /// except that of the profile of `keep`.
    ///
    /// `keep` is what [`Cuts::truncated_to`](crate::Cuts::truncated_to) leaves of that compaction. It is stored under the
    /// next version if the stored one has the version [`Compact::replaces`](crate::Compact::replaces). That version is
    /// never [`NONE`](crate::CompactionVersion::NONE).
    ///
    /// # Errors
    ///
    /// - [`Conflict`](StoreError::Conflict) if the log is at another revision of the incarnation.
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended.
    /// - Another error if the store cannot be written.
    ///
    /// If the call is refused, nothing was removed.
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError>;
}

/// The result of a truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// The log's revision after the truncation, or `None` if no exchange is left, and therefore no conversation.
    pub revision: Option<Revision>,
    /// The number of exchanges removed.
    pub removed: u64,
}

impl Truncated {
    /// Reports that this many exchanges were removed, and that the log is now at this revision.
    #[must_use]
    pub const fn new(revision: Option<Revision>, removed: u64) -> Self {
        Self { revision, removed }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Truncate + ?Sized> Truncate for Arc<S> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        (**self).truncate(id, expect, from, keep).await
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
