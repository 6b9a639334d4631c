//! Erasure of all conversations under a prefix, which not every store supports.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    List, StoreError,
    list::Cursor,
    removed::{ByStore, Removed},
};
use crate::{
    conversation_id::{ConversationId, Prefix},
    seq::Revision,
};

/// A store that can erase all conversations under a prefix, and prove that nothing is left.
///
/// [`EraseExt::erase_all`](crate::EraseExt::erase_all) makes these calls in the right order and returns a receipt.
/// Applications use that.
///
/// # Contract
///
/// - **Calls in flight restore nothing.** After [`bar`](Self::bar), an append is refused with
///   [`Gone`](StoreError::Gone) if it [names an epoch](crate::Append::since) from before. Appends that name an
///   incarnation are refused when the conversation is erased.
/// - **Page by page.** Each call of [`erase`](Self::erase) erases a bounded number of conversations. A conversation is
///   erased whole or not at all, as by [`delete`](crate::HistoryStore::delete).
/// - **Repeatable.** If an erasure is interrupted, repeat it from the beginning. It then erases what is left.
/// - **Nothing else is touched.** Only conversations that the prefix contains are erased.
///
/// The trait can be used as `Arc<dyn Erase>`. To test it with the conformance suite, add the store to the handle with
/// `Handle::erase`.
#[async_trait]
pub trait Erase: List {
    /// Records an erasure of all conversations under the prefix, so that calls that are running cannot begin one of
    /// them again. It removes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be written.
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError>;

    /// Erases at most `limit` conversations under the prefix, in the order of a [listing](List::list) and after the
    /// cursor if there is one. Damaged conversations are erased as well. It also erases data that belongs to no
    /// conversation any more, because an earlier erasure was interrupted. A limit of 0 counts as 1.
    ///
    /// A store that consists of several stores divides the limit among them, but each may erase one conversation. Each
    /// erases in the order of its own listing, and the next page begins where the first of them stopped.
    ///
    /// # Errors
    ///
    /// - [`PartlyErased`](StoreError::PartlyErased) if some of the conversations were erased and the call failed for
    ///   another one. It has the numbers of what was removed.
    /// - Another error if the store cannot be written. Nothing was erased then, or the outcome is unknown: for example,
    ///   the connection broke before the answer.
    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError>;

    /// Erases one conversation if its log still has this revision. Returns `None`, and erases nothing, if it has
    /// another one or if there is no such conversation. The expiry of conversations uses it: a conversation stays if
    /// something was appended in the meantime.
    ///
    /// # Errors
    ///
    /// - [`PartlyErased`](StoreError::PartlyErased) if the conversation was erased and a later step failed.
    /// - Another error if the conversation is damaged, or if the store cannot be written.
    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError>;

    /// Counts everything that is stored under the prefix, also what belongs to no conversation. The cost grows with the
    /// number of conversations and of their records.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError>;

    /// Removes from files what erasures left there, as far as the store can, and says what is left to the operator. It
    /// may take long and need free space: read the documentation of the store.
    ///
    /// # Errors
    ///
    /// Returns an error if a step fails.
    async fn scrub(&self) -> Result<Scrubbed, StoreError>;
}

/// The result of erasing a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErasedPage {
    /// The numbers of removed things.
    pub removed: ByStore,
    /// The place at which the next page begins, or `None` if this was the last page.
    pub next: Option<Cursor>,
}

impl ErasedPage {
    /// Reports that this was removed, and that the next page begins at `next`.
    #[must_use]
    pub const fn new(removed: ByStore, next: Option<Cursor>) -> Self {
        Self { removed, next }
    }
}

/// The steps of a [scrub](Erase::scrub), as short texts for people, such as `VACUUM`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Scrubbed {
    /// The steps that were done.
    pub done: Vec<String>,
    /// The places that may still have erased data and that only the operator can clean, such as backups.
    pub left: Vec<String>,
}

impl Scrubbed {
    /// Reports the steps that were done, and those that are left to the operator.
    #[must_use]
    pub fn new<D: Into<String>, L: Into<String>>(
        done: impl IntoIterator<Item = D>,
        left: impl IntoIterator<Item = L>,
    ) -> Self {
        Self { done: done.into_iter().map(Into::into).collect(), left: left.into_iter().map(Into::into).collect() }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase + ?Sized> Erase for Arc<S> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        (**self).bar(under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        (**self).erase(under, after, limit).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        (**self).erase_if(id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        (**self).count(under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        (**self).scrub().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trait_is_dyn_compatible() {
        fn usable(_: Option<Arc<dyn Erase>>, _: Option<&dyn Erase>) {}
        fn is_list<S: Erase + List>() {}
        usable(None, None);
        is_list::<Arc<dyn Erase>>();
    }
}
