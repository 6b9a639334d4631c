//! The suite's access to a store.

use std::sync::Arc;

use async_trait::async_trait;
use tower_chat_history_core::{Erase, HistoryStore, Prune, Truncate};

/// Opens handles on one storage. Each behavior uses its own conversations, so all of them may share a storage.
///
/// Any `Arc<dyn HistoryStore>` is a fixture without optional abilities, whose handles are all the same store. An
/// `Arc<dyn Truncate>` is a fixture whose store can truncate, an `Arc<dyn Prune>` one whose store can prune, and an
/// `Arc<dyn Erase>` one whose store lists and erases.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Opens a handle on the storage, which is the same for all handles. If the store supports several processes, open
    /// it as another process would.
    ///
    /// For a [durable](Capabilities::durable) store, the fixture must not hold a handle itself, because some behaviors
    /// drop all handles and open the storage again.
    async fn open(&self) -> Arc<dyn HistoryStore>;

    /// Returns the store's promises beyond the contract of all stores.
    fn capabilities(&self) -> Capabilities;

    /// Opens a handle like [`open`](Self::open) on a store that can [truncate](Truncate). The default returns `None`:
    /// the store cannot truncate, and its tests need `without: [truncate]`.
    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        None
    }

    /// Opens a handle like [`open`](Self::open) on a store that can [prune](Prune). The default returns `None`: the
    /// store cannot prune, and its tests need `without: [prune]`.
    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        None
    }

    /// Opens a handle like [`open`](Self::open) on a store that lists its conversations and [erases](Erase) them. The
    /// default returns `None`: the store does neither, and its tests need `without: [erase]`.
    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        None
    }
}

/// A store's promises beyond the contract of all stores. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// `true` if all data is still there after all handles were dropped and the storage is opened again.
    pub durable: bool,
    /// `true` if the store refuses exchanges that are [encrypted] already, because it encrypts them itself. This is a
    /// restriction, and no promise.
    ///
    /// [encrypted]: tower_chat_history_core::Exchange::sealed
    pub refuses_sealed: bool,
}

impl Capabilities {
    /// Creates capabilities without any promise.
    #[must_use]
    pub const fn new() -> Self {
        Self { durable: false, refuses_sealed: false }
    }

    /// Sets whether all data is still there after all handles were dropped and the storage is opened again. The
    /// default is `false`.
    #[must_use]
    pub const fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Sets whether the store refuses exchanges that are encrypted already. The default is `false`.
    #[must_use]
    pub const fn refuses_sealed(mut self, refuses: bool) -> Self {
        self.refuses_sealed = refuses;
        self
    }
}

#[async_trait]
impl Fixture for Arc<dyn HistoryStore> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Self::clone(self)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }
}

#[async_trait]
impl Fixture for Arc<dyn Truncate> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(Self::clone(self))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Self::clone(self))
    }
}

#[async_trait]
impl Fixture for Arc<dyn Prune> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(Self::clone(self))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Self::clone(self))
    }
}

#[async_trait]
impl Fixture for Arc<dyn Erase> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(Self::clone(self))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Self::clone(self))
    }
}

/// A fixture whose handles are clones of one store that has all optional abilities, but is not durable.
#[derive(Clone, Debug)]
pub struct SharedStore<S>(pub S);

#[async_trait]
impl<S: Truncate + Prune + Erase + Clone + 'static> Fixture for SharedStore<S> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.0.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.0.clone()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.0.clone()))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.0.clone()))
    }
}
