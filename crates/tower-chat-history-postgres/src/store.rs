//! The store's handle.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use deadpool_postgres::Pool;
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage, Fork,
    ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load,
    Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError, Truncate, Truncated,
    backend::{Erasures, KeyRange},
};

use crate::{
    cut,
    database::{BatchQueue, Call, Database},
    erase,
    error::Failure,
    list,
    read::{self, LoadRequest},
    rows::uuid,
    scrub,
    write::{self, AppendRequest},
};

/// A store that keeps conversations in PostgreSQL. See the [crate docs](crate).
///
/// A clone is another handle on the same pool.
#[derive(Clone)]
pub struct PostgresStore {
    database: Arc<Database>,
    loads: BatchQueue<LoadRequest>,
    appends: BatchQueue<AppendRequest>,
}

impl PostgresStore {
    pub(crate) fn new(database: Database) -> Self {
        Self { database: Arc::new(database), loads: BatchQueue::default(), appends: BatchQueue::default() }
    }

    async fn call<T, F>(&self, work: impl FnOnce(Call) -> F + Send) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        Ok(Call::make(&self.database, work).await?)
    }

    /// Returns the pool of connections. Closing it closes the store: later calls fail.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.database.pool
    }

    /// Returns the name of the schema that contains the tables.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.database.schema
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl HistoryStore for PostgresStore {
    fn system(&self) -> &'static str {
        "postgresql"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        Ok(read::load(&self.database, &self.loads, id, load).await?)
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let name = uuid(Incarnation::random());
        Ok(write::append(&self.database, &self.appends, id, &append, name).await?)
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { write::compact(&call, &id, incarnation, compact).await }).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { read::page(&call, &id, from, limit).await }).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        let id = id.clone();
        self.call(move |call| async move { erase::delete(&call, &id).await }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Truncate for PostgresStore {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { cut::truncate(&call, &id, expect, from, keep.as_ref()).await }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Prune for PostgresStore {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { cut::prune(&call, &id, incarnation, keep, derived).await }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fork for PostgresStore {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { write::fork(&call, &id, incarnation, &to).await }).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl List for PostgresStore {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let under = under.clone();
        let after = after.cloned();
        self.call(move |call| async move { list::list(&call, &under, after.as_ref(), limit).await }).await
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { list::describe(&call, &id).await }).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { list::set_labels(&call, &id, incarnation, replaces, &labels).await }).await
    }
}

/// The guide's page on [erasure](crate::guide::erasure) describes what each call does.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Erase for PostgresStore {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        let erased = Erasures::key(under);
        self.call(move |call| async move { erase::bar(&call, &erased).await.map(drop) }).await
    }

    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let under = under.clone();
        let after = after.cloned();
        let erased = self.call(move |call| async move { erase::erase(&call, &under, after.as_ref(), limit).await });
        let (removed, next) = erased.await?;
        Ok(ErasedPage::new(ByStore::of(self.system(), removed), next))
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        let id = id.clone();
        self.call(move |call| async move { erase::erase_if(&call, &id, revision).await }).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let mut total = Removed::default();
        let mut rest = Some(KeyRange::new(under, None));
        while let Some(keys) = rest {
            // Each page is a call of its own, with its own time limit.
            let page = self.call(move |call| async move { erase::count_page(&call, &keys).await });
            let (counted, next) = page.await?;
            total += counted;
            rest = next;
        }
        Ok(ByStore::of(self.system(), total))
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        Ok(scrub::scrub(&self.database).await?)
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("schema", &self.database.schema).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_and_calls_cross_threads() {
        fn is_send<T: Send>(_: &T) {}
        fn is_handle<T: Clone + Send + Sync + 'static>() {}
        is_handle::<PostgresStore>();
        is_send(&PostgresStore::connect("never polled"));
    }
}
