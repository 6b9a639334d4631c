//! A store that routes each conversation to one of several stores.

mod erase;
mod fork;
mod list;

use std::fmt;

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, HistoryStore, Incarnation, Load, Loaded, Page,
    Prune, PruneTo, Pruned, Revision, Seq, StoreError, Truncate, Truncated,
};

pub use self::{
    fork::OtherStore,
    list::{StoreList, StoreListError},
};

/// The choice of a store for each conversation: a closure, or a [list of stores](StoreList).
pub trait Route: Send + Sync + 'static {
    /// The type of the stores.
    type Store: HistoryStore;

    /// Returns the store of the conversation.
    fn route(&self, id: &ConversationId) -> Self::Store;
}

impl<F, S> Route for F
where
    F: Fn(&ConversationId) -> S + Send + Sync + 'static,
    S: HistoryStore,
{
    type Store = S;

    fn route(&self, id: &ConversationId) -> S {
        self(id)
    }
}

/// A store that distributes conversations over several stores. A closure chooses the store of each conversation, for
/// example by tenant, region or kind of user.
///
/// For one id, the closure must always return the same store. Otherwise the conversation is not found. The closure is
/// called at every access, so it must not block, and it should look up an open store, not open one.
///
/// The closure may return a store of any type, such as a clone of a handle. If that type implements [`Truncate`] or
/// [`Prune`], so does the routed store.
///
/// ```
/// use tower_chat_history::{ConversationId, MemoryStore, RoutedStore};
///
/// let (paying, trial) = (MemoryStore::new(), MemoryStore::with_limit(1 << 20));
/// let store = RoutedStore::new(move |id: &ConversationId| {
///     if id.parts().next().as_deref() == Some("trial") { trial.clone() } else { paying.clone() }
/// });
/// ```
///
/// If the stores have different types, return `Arc<dyn Truncate>` or `Arc<dyn Prune>`, or `Arc<dyn HistoryStore>` if
/// one of them implements neither:
///
/// ```
/// # use tower_chat_history::MemoryStore as SqliteStore;
/// use std::sync::Arc;
/// use tower_chat_history::{ConversationId, MemoryStore, RoutedStore, store::Truncate};
///
/// # fn route(sqlite: Arc<SqliteStore>, memory: Arc<MemoryStore>) {
/// let store = RoutedStore::new(move |id: &ConversationId| -> Arc<dyn Truncate> {
///     if id.parts().next().as_deref() == Some("trial") { memory.clone() } else { sqlite.clone() }
/// });
/// # }
/// ```
///
/// A closure does not tell which stores there are, or whether two conversations have the same one. To
/// [list](crate::store::List), [fork](crate::store::Fork) and [erase](crate::store::Erase) conversations, create the
/// routed store [over a list](Self::over):
///
/// ```
/// # use tower_chat_history::MemoryStore as SqliteStore;
/// use tower_chat_history::{ConversationId, MemoryStore, RoutedStore};
///
/// # fn route(europe: SqliteStore, america: SqliteStore) -> Result<(), tower_chat_history::store::StoreListError> {
/// let in_america = |id: &ConversationId| id.parts().next().as_deref() == Some("acme");
/// let store = RoutedStore::over([("europe", europe), ("america", america)], move |id| usize::from(in_america(id)))?;
/// # Ok(())
/// # }
/// ```
///
/// A fork makes the copy in the store of the conversation. If the closure chooses another store for the id of the copy,
/// the fork is refused with [`OtherStore`]. Choose the id so that both are in one store, for example under the same
/// tenant. To copy a conversation into another store, export it and import it there.
#[derive(Clone)]
pub struct RoutedStore<R>(R);

impl<F, S> RoutedStore<F>
where
    F: Fn(&ConversationId) -> S + Send + Sync + 'static,
    S: HistoryStore,
{
    /// Creates a store that routes conversations by this closure.
    pub const fn new(route: F) -> Self {
        Self(route)
    }
}

impl<S, F> RoutedStore<StoreList<S, F>>
where
    S: HistoryStore + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    /// Creates a store over a list of stores with names. The closure returns the index of a conversation's store in the
    /// list. A larger number is taken modulo the number of stores. The names appear in receipts of erasures.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no store, or if two stores have the same name.
    pub fn over<N: Into<String>>(stores: impl IntoIterator<Item = (N, S)>, choose: F) -> Result<Self, StoreListError> {
        StoreList::new(stores, choose).map(Self)
    }
}

impl<R: Route> RoutedStore<R> {
    /// Returns the store of the conversation.
    pub fn route(&self, id: &ConversationId) -> R::Store {
        self.0.route(id)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<R: Route> HistoryStore for RoutedStore<R> {
    /// Returns `routed`, because different conversations may have different stores.
    fn system(&self) -> &'static str {
        "routed"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.route(id).load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.route(id).append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.route(id).compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.route(id).read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.route(id).delete(id).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<R: Route<Store: Truncate>> Truncate for RoutedStore<R> {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        self.route(id).truncate(id, expect, from, keep).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<R: Route<Store: Prune>> Prune for RoutedStore<R> {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        self.route(id).prune(id, incarnation, keep, derived).await
    }
}

impl<R> fmt::Debug for RoutedStore<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedStore").finish_non_exhaustive()
    }
}
