//! Forks within the stores of a list.

use async_trait::async_trait;
use tower_chat_history_core::{ConversationId, Fork, ForkTo, Forked, Incarnation, StoreError};

use super::{RoutedStore, StoreList};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S, F> Fork for RoutedStore<StoreList<S, F>>
where
    S: Fork + Clone,
    F: Fn(&ConversationId) -> usize + Send + Sync + 'static,
{
    /// Forks within one store. A fork into another store is refused with a [`Backend`](StoreError::Backend) error, whose
    /// source is [`OtherStore`].
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, to: ForkTo) -> Result<Forked, StoreError> {
        let (name, store) = &self.0.stores[self.0.index(id)];
        let (other, _) = &self.0.stores[self.0.index(&to.id)];
        if name != other {
            return Err(StoreError::backend(OtherStore { store: name.clone(), other: other.clone() }));
        }
        store.fork(id, incarnation, to).await
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
