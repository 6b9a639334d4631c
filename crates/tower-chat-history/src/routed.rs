//! A store that routes each conversation to one of several stores.
//!
//! # Decisions
//!
//! - **A fork stays within one store.** A closure returns a handle, and two handles don't tell if they are of one
//!   store.

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};
use tower_chat_history_core::{
    Append, Appended, ByStore, Compact, CompactOutcome, ConversationId, Cursor, Derived, Erase, ErasedPage,
    FailedConversation, Fork, ForkTo, Forked, HistoryStore, Incarnation, Labels, LabelsOutcome, LabelsVersion, List,
    Listed, Listing, Load, Loaded, Page, Prefix, Prune, PruneTo, Pruned, Removed, Revision, Scrubbed, Seq, StoreError,
    Truncate, Truncated,
};

use crate::error::OptionError;

/// Chooses the store of a conversation.
type Choose<S> = Arc<dyn Fn(&ConversationId) -> S + Send + Sync>;

/// Stores with names, and the closure that returns the index of a conversation's store.
type Named<S> = (Arc<[(String, S)]>, Choose<usize>);

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
/// let paying = MemoryStore::new();
/// let trial = MemoryStore::with_limit(1 << 20);
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
/// # fn route(europe: SqliteStore, america: SqliteStore) -> Result<(), tower_chat_history::error::OptionError> {
/// let store = RoutedStore::over([("europe", europe), ("america", america)], |id: &ConversationId| {
///     usize::from(id.parts().next().as_deref() == Some("acme"))
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// A fork makes the copy in the store of the conversation. If the closure chooses another store for the id of the copy,
/// the fork is refused with [`OtherStore`]. Choose the id so that both are in one store, for example under the same
/// tenant. To copy a conversation into another store, export it and import it there.
///
/// `S` is the type of the stores. `L` holds the list of stores, if there is one.
pub struct RoutedStore<S, L = ()> {
    choose: Choose<S>,
    list: L,
}

impl<S> RoutedStore<S> {
    /// Creates a store that routes conversations by this closure.
    pub fn new(choose: impl Fn(&ConversationId) -> S + Send + Sync + 'static) -> Self {
        Self { choose: Arc::new(choose), list: () }
    }
}

impl<S> RoutedStore<S, Named<S>>
where
    S: HistoryStore + Clone,
{
    /// Creates a store over a list of stores with names. The closure returns the index of a conversation's store in the
    /// list. A larger number is taken modulo the number of stores. The names appear in receipts of erasures.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no store, or if two stores have the same name.
    pub fn over<N: Into<String>>(
        stores: impl IntoIterator<Item = (N, S)>,
        choose: impl Fn(&ConversationId) -> usize + Send + Sync + 'static,
    ) -> Result<Self, OptionError> {
        let stores: Arc<[(String, S)]> = stores.into_iter().map(|(name, store)| (name.into(), store)).collect();
        if stores.is_empty() {
            return Err(OptionError::NoStore);
        }
        let mut names = HashSet::new();
        if let Some((name, _)) = stores.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(OptionError::RepeatedStore { name: name.clone() });
        }

        let count = stores.len();
        let index: Choose<usize> = Arc::new(move |id| choose(id) % count);
        let list = (Arc::clone(&stores), Arc::clone(&index));
        Ok(Self { choose: Arc::new(move |id| stores[index(id)].1.clone()), list })
    }

    fn stores(&self) -> &[(String, S)] {
        &self.list.0
    }

    /// Returns the index of the conversation's store.
    fn index(&self, id: &ConversationId) -> usize {
        (self.list.1)(id)
    }
}

impl<S, L> RoutedStore<S, L> {
    /// Returns the store of the conversation.
    pub fn route(&self, id: &ConversationId) -> S {
        (self.choose)(id)
    }
}

// Not derived, because a derived impl would require `S: Clone`.
impl<S, L: Clone> Clone for RoutedStore<S, L> {
    fn clone(&self) -> Self {
        Self { choose: Arc::clone(&self.choose), list: self.list.clone() }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: HistoryStore, L: Send + Sync + 'static> HistoryStore for RoutedStore<S, L> {
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
impl<S: Truncate, L: Send + Sync + 'static> Truncate for RoutedStore<S, L> {
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
impl<S: Prune, L: Send + Sync + 'static> Prune for RoutedStore<S, L> {
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

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Fork + Clone> Fork for RoutedStore<S, Named<S>> {
    /// Forks within one store. A fork into another store is refused with a [`Backend`](StoreError::Backend) error, whose
    /// source is [`OtherStore`].
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        let (name, store) = &self.stores()[self.index(id)];
        let (other, _) = &self.stores()[self.index(&to.id)];
        if name != other {
            return Err(StoreError::backend(OtherStore { store: name.clone(), other: other.clone() }));
        }
        store.fork(id, incarnation, to).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: List + Clone> List for RoutedStore<S, Named<S>> {
    /// Merges the pages of all stores. A conversation in a store that the closure does not choose for it is left out,
    /// because no other call finds it. A page counts the foreign keys of all stores up to their own cursors, so a key
    /// may count on more than one page. No key is left out.
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let limit = limit.max(1);
        let pages = try_join_all(self.stores().iter().map(|(_, store)| store.list(under, after, limit))).await?;
        // Beyond the first cursor, a store may have conversations that its page lacks.
        let known_to = pages.iter().filter_map(|page| page.next.clone()).min_by(order);
        let mut merged = Listing::default();
        merged.foreign_keys = pages.iter().map(|page| page.foreign_keys).sum();

        let mut found = Vec::new();
        for (store, page) in pages.into_iter().enumerate() {
            for entry in page.into_entries() {
                let id = id_of(&entry).clone();
                let is_known = known_to.as_ref().is_none_or(|end| id.as_str() <= end.last().as_str());
                // The copies that are left out do not count. Otherwise, a page could end between two copies.
                if is_known && self.index(&id) == store {
                    found.push((id, entry));
                }
            }
        }

        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let is_cut = found.len() > limit;
        found.truncate(limit);
        merged.next = if is_cut { found.last().map(|(last, _)| Cursor::after(last.clone())) } else { known_to };
        for (_, entry) in found {
            match entry {
                Ok(listed) => merged.conversations.push(listed),
                Err(damaged) => merged.damaged.push(damaged),
            }
        }
        Ok(merged)
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.route(id).describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.route(id).set_labels(id, incarnation, replaces, labels).await
    }
}

/// Erases in all stores, also conversations in a store that the closure does not choose for them. The numbers have the
/// names of the stores in the list.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Erase + Clone> Erase for RoutedStore<S, Named<S>> {
    async fn bar(&self, under: &Prefix) -> Result<(), StoreError> {
        try_join_all(self.stores().iter().map(|(_, store)| store.bar(under))).await?;
        Ok(())
    }

    /// Each store erases a part of the page. The next page begins where the first of them stopped. The others find
    /// nothing there up to their own cursors.
    async fn erase(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<ErasedPage, StoreError> {
        let each = (limit / self.stores().len()).max(1);
        let pages = join_all(self.stores().iter().map(|(_, store)| store.erase(under, after, each))).await;

        let mut removed = ByStore::default();
        let mut next = None;
        let mut failed = None;
        for ((name, _), page) in self.stores().iter().zip(pages) {
            let numbers = match page {
                Ok(page) => {
                    next = [next, page.next].into_iter().flatten().min_by(order);
                    page.removed
                }
                Err(error) => {
                    let (numbers, error) = error.into_erased();
                    failed.get_or_insert(error);
                    numbers
                }
            };
            removed += ByStore::of(name, numbers.total());
        }
        match failed {
            Some(error) => Err(error.after_erasing(removed)),
            None => Ok(ErasedPage::new(removed, next)),
        }
    }

    async fn erase_if(&self, id: &ConversationId, revision: Revision) -> Result<Option<Removed>, StoreError> {
        self.route(id).erase_if(id, revision).await
    }

    async fn count(&self, under: &Prefix) -> Result<ByStore, StoreError> {
        let counts = self.stores().iter().map(|(_, store)| store.count(under));
        let mut counted = ByStore::default();
        for ((name, _), count) in self.stores().iter().zip(try_join_all(counts).await?) {
            counted += ByStore::of(name, count.total());
        }
        Ok(counted)
    }

    async fn scrub(&self) -> Result<Scrubbed, StoreError> {
        let mut all = Scrubbed::default();
        for (name, store) in self.stores() {
            let Scrubbed { done, left, .. } = store.scrub().await?;
            all.done.extend(done.into_iter().map(|step| format!("{name}: {step}")));
            all.left.extend(left.into_iter().map(|place| format!("{name}: {place}")));
        }
        Ok(all)
    }
}

fn id_of(entry: &Result<Listed, FailedConversation>) -> &ConversationId {
    entry.as_ref().map_or_else(|damaged| &damaged.id, |listed| &listed.id)
}

fn order(one: &Cursor, other: &Cursor) -> Ordering {
    one.last().as_str().cmp(other.last().as_str())
}

impl<S, L> fmt::Debug for RoutedStore<S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutedStore").finish_non_exhaustive()
    }
}

/// The error for a fork whose copy would be in another store of the list than the conversation. Nothing was copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the conversation is in the store {store}, and the copy would be in {other}: export the conversation, and import \
     it under the other id"
)]
#[non_exhaustive]
pub struct OtherStore {
    /// The name of the conversation's store.
    pub store: String,
    /// The name of the store that the closure chooses for the copy.
    pub other: String,
}
