//! The wrapper around a store.

mod append;
mod edit;
mod fork;
mod history;
mod list;

use std::{fmt, sync::Arc};

use quick_cache::sync::Cache;
use tower_chat_history_core::{
    Compaction, ConversationId, Labels, Listed, Page, Prefix, Profile, Recorded, Revision, StoreError,
};

use crate::encryption::{
    error::OpenError,
    key::KeyError,
    keys::Keys,
    queue::Queues,
    sealing::{Opener, open_compaction, open_exchange, open_labels},
};

/// The number of conversations whose last revision is kept in memory.
const REVISIONS: usize = 10_000;

/// A store that encrypts what another store keeps. See the [crate's documentation](crate).
///
/// It has the abilities of the inner store, and it [forks](tower_chat_history_core::Fork) if the inner store erases. A
/// fork is not one step. A clone is another handle on the same store and the same keys.
#[derive(Clone)]
pub struct EncryptedStore<S> {
    inner: S,
    keys: Keys,
    shared: Arc<Shared>,
}

struct Shared {
    /// The last revision that was seen of each conversation. It may be outdated.
    revisions: Cache<ConversationId, Revision>,
    /// The appends that seal for the next position, whatever it is.
    queues: Queues<ConversationId>,
}

impl<S> EncryptedStore<S> {
    /// Wraps a store. Items are sealed and opened with these keys.
    pub fn new(inner: S, keys: Keys) -> Self {
        let shared = Arc::new(Shared { revisions: Cache::new(REVISIONS), queues: Queues::default() });
        Self { inner, keys, shared }
    }

    /// Returns the inner store, whose items are sealed.
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the inner store, for example to close it.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Returns the keys.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Removes what this handle and its clones keep in memory of the conversations under a prefix: ids with revisions,
    /// and [data keys](Keys::forget). Call it after others have erased them. An erasure through this store forgets the
    /// revisions, but not the data keys, which other conversations may use.
    pub fn forget(&self, under: &Prefix) {
        self.forget_revisions(under);
        self.keys.forget(under);
    }

    fn forget_revisions(&self, under: &Prefix) {
        self.shared.revisions.retain(|id, _| !under.contains(id));
    }

    fn remember(&self, id: &ConversationId, revision: Revision) {
        self.shared.revisions.insert(id.clone(), revision);
    }
}

impl<S: Sync> EncryptedStore<S> {
    /// Opens exchanges that were read from the inner store.
    async fn open_all(&self, id: &ConversationId, exchanges: &mut [Recorded]) -> Result<(), StoreError> {
        let mut opener = Opener::new(&self.keys, id);
        for recorded in exchanges {
            *recorded = open_exchange(&mut opener, recorded).await.map_err(|e| e.of_exchange(id, recorded.seq))?;
        }
        Ok(())
    }

    async fn open_page(&self, id: &ConversationId, mut page: Page) -> Result<Page, StoreError> {
        self.open_all(id, &mut page.exchanges).await?;
        Ok(page)
    }

    async fn open_compaction(
        &self,
        id: &ConversationId,
        profile: &Profile,
        compaction: Compaction,
    ) -> Result<Compaction, StoreError> {
        let opened = open_compaction(&mut Opener::new(&self.keys, id), profile, compaction).await;
        opened.map_err(|error| error.of_compaction(id, profile))
    }

    /// Opens labels. If all data keys of the conversation's prefix were destroyed, the labels are gone, as if they had
    /// been removed, so that the conversation can still be listed and expire.
    async fn open_labels(&self, id: &ConversationId, labels: &Labels) -> Result<Labels, OpenError> {
        let opened = open_labels(&mut Opener::new(&self.keys, id), labels).await;
        let lacks_key = matches!(opened, Err(OpenError::Key { source: KeyError::Missing { .. }, .. }));
        // If the person still has keys, the labels were changed, or are another one's.
        if lacks_key && matches!(self.keys.current(id).await, Ok(None)) {
            return Ok(Labels::default());
        }
        opened
    }

    async fn open_listed(&self, mut listed: Listed) -> Result<Listed, OpenError> {
        listed.labels = self.open_labels(&listed.id, &listed.labels).await?;
        Ok(listed)
    }
}

impl<S: fmt::Debug> fmt::Debug for EncryptedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStore").field("inner", &self.inner).field("keys", &self.keys).finish_non_exhaustive()
    }
}
