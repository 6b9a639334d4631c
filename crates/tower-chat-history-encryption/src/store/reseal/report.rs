//! The reports of passes that seal items again.

use tower_chat_history_core::{Cursor, FailedConversation, StoreError};

/// The numbers of one call of [`EncryptedStore::reseal`](crate::EncryptedStore::reseal).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResealRun {
    /// The number of conversations that the call looked at.
    pub examined: u64,
    /// The number of items that were sealed again. A compaction counts as one item, with all its summaries. An item
    /// that another call replaced at the same time does not count.
    pub items: u64,
    /// The number of conversations that are damaged, or that have an item that does not open. Their other items may
    /// still be sealed with an old key.
    pub failed: u64,
    /// The first of them.
    pub first_failure: Option<FailedConversation>,
    /// The place at which the next call continues, or `None` if this call reached the end.
    pub next: Option<Cursor>,
}

impl ResealRun {
    pub(super) fn fail(&mut self, failed: FailedConversation) {
        self.failed += 1;
        self.first_failure.get_or_insert(failed);
    }
}

/// The error for a call of [`EncryptedStore::reseal`](crate::EncryptedStore::reseal) that stopped.
#[derive(Debug, thiserror::Error)]
#[error("the call stopped after {} conversations, and not all items were sealed again: {source}", run.examined)]
#[non_exhaustive]
pub struct ResealError {
    /// The numbers so far, and the place at which to continue.
    pub run: Box<ResealRun>,
    /// The cause.
    pub source: StoreError,
}
