//! Data next to a log, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{HistoryStore, Page, StoreError};
use crate::{
    attachment::{Attachment, AttachmentKey, AttachmentName},
    conversation_id::ConversationId,
    revision::{Incarnation, Revision},
    seq::Seq,
};

/// A store that keeps [attachments](Attachment) next to the log of a conversation: data that is derived from a range of
/// the log, such as a search index.
///
/// # Contract
///
/// - **Atomic.** A call stores and removes all that it names, or nothing. If the caller drops the future, the call has
///   either taken full effect or none.
/// - **Removals come first.** An attachment whose [key](Attachment::key) is still stored after the removals is not
///   replaced: the stored one stays. A call can therefore be repeated, and two processes that derive the same data
///   may both store it. Removing a key that is not stored succeeds.
/// - **Not beyond the log.** An attachment is stored only if it passes [`Attachment::check`] in the current log. Its
///   range may begin before a pruned log.
/// - **Bounded.** The data of one call should have at most 64 MiB together. A store may refuse more with
///   [`Full`](StoreError::Full).
/// - **Removed with its exchanges.** A [truncation](crate::Truncate) removes the attachments whose range has a removed
///   position. A [prune](crate::Prune) with [`Derived::Erase`](crate::Derived::Erase) removes those whose range begins
///   before the log, and one with [`Derived::Keep`](crate::Derived::Keep) removes none. A
///   [deletion](HistoryStore::delete) removes all. Each happens in the same step as the removal of the exchanges.
/// - **The log is not changed.** Neither its revision nor a [known state](crate::Load::known) changes.
/// - **Verbatim.** The data is returned byte for byte.
///
/// The trait can be used as `Arc<dyn Attach>`. To test it with the conformance suite, implement
/// `Fixture::open_attach`.
#[async_trait]
pub trait Attach: HistoryStore {
    /// Removes attachments, then stores others, if the conversation is in this incarnation. No two of the attachments
    /// to store have the same key.
    ///
    /// # Errors
    ///
    /// - [`Gone`](StoreError::Gone) if the incarnation has ended or there is no conversation.
    /// - [`Attachment`](StoreError::Attachment) if an attachment breaks a [rule](Attachment::check).
    /// - [`Full`](StoreError::Full) if the store has a limit and the call would exceed it.
    /// - Another error if the store cannot be written.
    ///
    /// If the call is refused, nothing was changed.
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError>;

    /// Reads all attachments with these names, as of one moment.
    ///
    /// They are in the order of the names, and those of one name in the order of their ranges. No name is given twice.
    /// If their data together has more than `limit` bytes, only the first attachments that fit in `limit` together are
    /// returned.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if an attachment is damaged.
    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError>;

    /// Reads the exchanges at these positions, as of one moment. It is a part of this trait because derived data leads
    /// to single exchanges. The positions are in ascending order, and none is given twice.
    ///
    /// The page has the exchanges in the order of the log, without the positions that the log does not have. Its
    /// [`more`](Page::more) is `false`.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read, or if a record is [corrupt](StoreError::Corrupt).
    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError>;
}

/// The attachments that were read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Attachments {
    /// The log's revision at that moment. `None` if there is no such conversation.
    pub revision: Option<Revision>,
    /// The attachments.
    pub attachments: Vec<Attachment>,
    /// `true` if there are more that the limit cut off.
    pub more: bool,
}

impl Attachments {
    /// Creates the result for a conversation that does not exist.
    #[must_use]
    pub const fn absent() -> Self {
        Self { revision: None, attachments: Vec::new(), more: false }
    }

    /// Creates the result for a log at this revision.
    #[must_use]
    pub const fn new(revision: Revision, attachments: Vec<Attachment>, more: bool) -> Self {
        Self { revision: Some(revision), attachments, more }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Attach + ?Sized> Attach for Arc<S> {
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError> {
        (**self).attach(id, incarnation, remove, put).await
    }

    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        (**self).attachments(id, names, limit).await
    }

    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
        (**self).pick(id, positions).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Attach>>, _: Option<&dyn Attach>) {}
        fn is_store<S: Attach + HistoryStore>() {}
        usable(None, None);
        is_store::<Arc<dyn Attach>>();
    }
}
