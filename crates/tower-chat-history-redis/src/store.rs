//! The store's handle.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load,
    Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate, Truncated,
};

use crate::{call::Shared, connection::Connection, erase, list, options::RedisOptions, read, registry, scrub, write};

/// A store that keeps conversations in Redis or Valkey. See the [crate docs](crate).
///
/// A clone is another handle on the same store. All handles share one connection, which carries any number of calls at
/// once, but few [large](crate::guide::failures#large-calls) ones.
#[derive(Clone)]
pub struct RedisStore {
    shared: Arc<Shared>,
}

impl RedisStore {
    pub(crate) fn new(connection: Connection, options: RedisOptions) -> Self {
        Self { shared: Arc::new(Shared::new(connection, options)) }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HistoryStore for RedisStore {
    fn system(&self) -> &'static str {
        erase::SYSTEM
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        read::load(&self.shared, id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        write::append(&self.shared, id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        write::compact(&self.shared, id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        read::page(&self.shared, id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        erase::delete(&self.shared, id).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Truncate for RedisStore {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        write::truncate(&self.shared, id, expect, from, keep).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Prune for RedisStore {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        write::prune(&self.shared, id, incarnation, keep, derived).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fork for RedisStore {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        write::fork(&self.shared, id, incarnation, to).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl List for RedisStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        list::list(&self.shared, under, after, limit).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        read::describe(&self.shared, id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        write::set_labels(&self.shared, id, incarnation, replaces, &labels).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Erase for RedisStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        registry::bar(&self.shared, under).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        erase::erase(&self.shared, under, after, limit).await
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        erase::erase_if(&self.shared, id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        erase::count(&self.shared, under).await
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        scrub::scrub(&self.shared).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address is left out, because it may contain a password.
        f.debug_struct("RedisStore").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_and_calls_cross_threads() {
        fn is_send<T: Send>(_: &T) {}
        fn is_handle<T: Clone + Send + Sync + 'static>() {}
        is_handle::<RedisStore>();
        is_send(&RedisStore::connect("redis://127.0.0.1:1"));
        is_send(&RedisStore::connect_cluster(["redis://127.0.0.1:1"]));
    }
}
