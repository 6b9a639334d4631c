//! A list of stores with names, over which conversations are distributed.

use std::{collections::HashSet, fmt};

use tower_chat_history_core::{ConversationId, HistoryStore};

use super::Route;

/// Stores with names, and a closure that chooses one for each conversation. A [`RoutedStore`](super::RoutedStore) over
/// such a list can list and erase conversations, because it knows all stores.
#[derive(Clone)]
pub struct StoreList<S, F> {
    pub(super) stores: Vec<(String, S)>,
    choose: F,
}

impl<S, F> StoreList<S, F>
where
    S: HistoryStore + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    pub(super) fn new<N: Into<String>>(
        stores: impl IntoIterator<Item = (N, S)>,
        choose: F,
    ) -> Result<Self, StoreListError> {
        let stores: Vec<(String, S)> = stores.into_iter().map(|(name, store)| (name.into(), store)).collect();
        if stores.is_empty() {
            return Err(StoreListError::Empty);
        }
        let mut names = HashSet::new();
        if let Some((name, _)) = stores.iter().find(|(name, _)| !names.insert(name.as_str())) {
            return Err(StoreListError::Repeated { name: name.clone() });
        }
        Ok(Self { stores, choose })
    }

    /// Returns the index of the conversation's store.
    pub(super) fn index(&self, id: &ConversationId) -> usize {
        (self.choose)(id) % self.stores.len()
    }
}

impl<S, F> Route for StoreList<S, F>
where
    S: HistoryStore + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    type Store = S;

    fn route(&self, id: &ConversationId) -> S {
        self.stores[self.index(id)].1.clone()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for StoreList<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.stores.iter().map(|(name, store)| (name, store))).finish()
    }
}

/// The error for a list of stores that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreListError {
    /// There was no store.
    #[error("invalid list of stores: expected at least one store")]
    Empty,
    /// Two stores had the same name.
    #[error("invalid list of stores: the name {name} occurs twice")]
    Repeated {
        /// The name.
        name: String,
    },
}
