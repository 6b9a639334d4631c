//! How the suite gets hold of a store.

use std::sync::Arc;

use async_trait::async_trait;

use crate::store::{HistoryStore, Prune, Truncate};

/// Opens handles on one storage. Every behavior gets one and uses conversations of its own, so they may share a storage.
///
/// Any `Arc<dyn HistoryStore>` is a fixture without capabilities, whose handles are all the same store; an
/// `Arc<dyn Truncate>` is one whose store can truncate, an `Arc<dyn Prune>` one whose store can prune.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// Opens a handle on the storage, each time the same storage: as another process would, if the store can do that.
    ///
    /// For a [durable](Capabilities::durable) store the fixture must not keep a handle itself: a behavior drops all of them
    /// and opens the storage again.
    async fn open(&self) -> Arc<dyn HistoryStore>;

    /// What the store promises beyond the contract that all stores keep.
    fn capabilities(&self) -> Capabilities;

    /// Opens a handle as [`open`](Self::open) does, of a store that can [truncate](Truncate). The default is `None`: it
    /// cannot, and is listed `without: [truncate]`.
    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        None
    }

    /// Opens a handle as [`open`](Self::open) does, of a store that can [prune](Prune). The default is `None`: it cannot, and
    /// is listed `without: [prune]`.
    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        None
    }
}

/// What a store promises beyond the contract that all stores keep. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether everything is still there after all handles were dropped and the storage is opened again.
    pub durable: bool,
}

impl Capabilities {
    /// Nothing beyond the contract.
    #[must_use]
    pub const fn new() -> Self {
        Self { durable: false }
    }

    /// Whether everything is still there after all handles were dropped and the storage is opened again. The default is
    /// `false`.
    #[must_use]
    pub const fn durable(mut self, durable: bool) -> Self {
        self.durable = durable;
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

/// The same storage, each call going through one more `Arc<dyn HistoryStore>`: proves that the store works behind it.
#[derive(Clone, Debug)]
pub struct ThroughArc<F>(pub F);

#[async_trait]
impl<F: Fixture> Fixture for ThroughArc<F> {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.0.open().await)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        let inner = self.0.open_truncate().await?;
        Some(Arc::new(inner))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        let inner = self.0.open_prune().await?;
        Some(Arc::new(inner))
    }
}
