//! The suite's access to a store.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{Erase, Fork, HistoryStore, Prune, Truncate};

/// Opens handles on one storage. Each behavior uses its own conversations, so all of them may share a storage.
///
/// A [`Handle`] is itself a fixture: all handles are then the same store.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Opens a handle on the storage, which is the same for all handles. If the store supports several processes, open
    /// it as another process would.
    ///
    /// For a [durable](Handle::durable) store, the fixture must not hold a handle itself, because some behaviors drop
    /// all handles and open the storage again.
    async fn open(&self) -> Handle;
}

/// A store, as each of its optional abilities.
#[derive(Clone, Debug)]
pub struct Handle {
    store: Arc<dyn HistoryStore>,
    truncate: Option<Arc<dyn Truncate>>,
    prune: Option<Arc<dyn Prune>>,
    fork: Option<Arc<dyn Fork>>,
    erase: Option<Arc<dyn Erase>>,
    pub(super) is_durable: bool,
    forks_in_steps: bool,
    pub(super) refuses_sealed: bool,
}

/// An ability that not every store has, and that some behaviors need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability {
    /// All data is still there when the storage is opened again ([`Handle::durable`]).
    Durable,
    /// The store can [truncate](Truncate) ([`Handle::truncate`]).
    Truncate,
    /// The store can [prune](Prune) ([`Handle::prune`]).
    Prune,
    /// The store can [fork](Fork) ([`Handle::fork`]).
    Fork,
    /// The store forks in one step. Only a store that has to encrypt each exchange anew cannot
    /// ([`Handle::forks_in_steps`]).
    ForkInOneStep,
    /// The store lists its conversations and [erases](Erase) them ([`Handle::erase`]).
    Erase,
    /// The store keeps exchanges that a wrapper has [encrypted]. Only a store that encrypts them itself cannot
    /// ([`Handle::refuses_sealed`]).
    ///
    /// [encrypted]: tower_chat_history_core::Exchange::sealed
    Sealed,
}

impl Handle {
    /// Creates a handle on a store without optional abilities. A clone of an `Arc` of a store is a store, too.
    #[must_use]
    pub fn new(store: impl HistoryStore) -> Self {
        Self {
            store: Arc::new(store),
            truncate: None,
            prune: None,
            fork: None,
            erase: None,
            is_durable: false,
            forks_in_steps: false,
            refuses_sealed: false,
        }
    }

    /// Creates a handle on a store that truncates, prunes, forks, lists and erases.
    #[must_use]
    pub fn with_all<S: Truncate + Prune + Fork + Erase>(store: S) -> Self {
        let store = Arc::new(store);
        Self {
            store: Arc::<S>::clone(&store),
            truncate: Some(Arc::<S>::clone(&store)),
            prune: Some(Arc::<S>::clone(&store)),
            fork: Some(Arc::<S>::clone(&store)),
            erase: Some(store),
            is_durable: false,
            forks_in_steps: false,
            refuses_sealed: false,
        }
    }

    /// Says that the store can truncate.
    #[must_use]
    pub fn truncate(mut self, store: impl Truncate) -> Self {
        self.truncate = Some(Arc::new(store));
        self
    }

    /// Says that the store can prune.
    #[must_use]
    pub fn prune(mut self, store: impl Prune) -> Self {
        self.prune = Some(Arc::new(store));
        self
    }

    /// Says that the store can fork.
    #[must_use]
    pub fn fork(mut self, store: impl Fork) -> Self {
        self.fork = Some(Arc::new(store));
        self
    }

    /// Says that the store forks exchange by exchange, because it encrypts each one for the copy. A part of the copy
    /// can then be seen, a repeat does not find the copy of an earlier call, and the copy has the times of its
    /// exchanges.
    #[must_use]
    pub fn forks_in_steps(mut self) -> Self {
        self.forks_in_steps = true;
        self
    }

    /// Says that the store lists its conversations and erases them.
    #[must_use]
    pub fn erase(mut self, store: impl Erase) -> Self {
        self.erase = Some(Arc::new(store));
        self
    }

    /// Says that all data is still there after all handles were dropped and the storage is opened again.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.is_durable = true;
        self
    }

    /// Says that the store refuses exchanges that are [encrypted] already, because it encrypts them itself.
    ///
    /// [encrypted]: tower_chat_history_core::Exchange::sealed
    #[must_use]
    pub fn refuses_sealed(mut self) -> Self {
        self.refuses_sealed = true;
        self
    }

    /// Returns `true` if the store has this ability.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        match capability {
            Capability::Durable => self.is_durable,
            Capability::Truncate => self.truncate.is_some(),
            Capability::Prune => self.prune.is_some(),
            Capability::Fork => self.fork.is_some(),
            Capability::ForkInOneStep => !self.forks_in_steps,
            Capability::Erase => self.erase.is_some(),
            Capability::Sealed => !self.refuses_sealed,
        }
    }

    pub(super) fn history(&self) -> &dyn HistoryStore {
        &*self.store
    }

    pub(super) fn truncating(&self) -> &Arc<dyn Truncate> {
        self.truncate.as_ref().expect("the store cannot truncate: list it after `without: [Truncate]`")
    }

    pub(super) fn pruning(&self) -> &Arc<dyn Prune> {
        self.prune.as_ref().expect("the store cannot prune: list it after `without: [Prune]`")
    }

    pub(super) fn forking(&self) -> &Arc<dyn Fork> {
        self.fork.as_ref().expect("the store cannot fork: list it after `without: [Fork]`")
    }

    pub(super) fn erasing(&self) -> &Arc<dyn Erase> {
        self.erase.as_ref().expect("the store neither lists nor erases: list it after `without: [Erase]`")
    }
}

#[async_trait]
impl Fixture for Handle {
    async fn open(&self) -> Handle {
        self.clone()
    }
}
