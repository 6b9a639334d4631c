//! A store in memory that can be interrupted, and that can hide the index.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tower_chat_history::MemoryStore;
use tower_chat_history_core::{
    Append, Appended, Attach, Attachment, AttachmentKey, AttachmentName, Attachments, Compact, CompactOutcome,
    ConversationId, HistoryStore, Incarnation, Load, Loaded, Page, Seq, StoreError,
};

/// A store whose calls can be counted and interrupted.
#[derive(Clone, Debug)]
pub(crate) struct Halting {
    pub(crate) store: Arc<MemoryStore>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    left: AtomicUsize,
    /// The attachments are hidden.
    blind: AtomicBool,
    calls: AtomicUsize,
    writes: AtomicUsize,
    /// The number of exchanges that were read.
    read: AtomicUsize,
    /// The most bytes of attachments that a call returns.
    most: AtomicUsize,
}

impl Halting {
    pub(crate) fn new() -> Self {
        Self::of(Arc::new(MemoryStore::new()))
    }

    fn of(store: Arc<MemoryStore>) -> Self {
        let state = State {
            left: AtomicUsize::new(usize::MAX),
            blind: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        };
        Self { store, state: Arc::new(state) }
    }

    /// Returns a handle that finds no attachments.
    pub(crate) fn blind(&self) -> Arc<Self> {
        let blind = Self::of(Arc::clone(&self.store));
        blind.state.blind.store(true, Ordering::Relaxed);
        Arc::new(blind)
    }

    /// Lets only so many more calls succeed.
    pub(crate) fn halt_after(&self, calls: usize) {
        self.state.left.store(calls, Ordering::Relaxed);
    }

    /// Lets a call return only so many bytes of attachments.
    pub(crate) fn return_at_most(&self, bytes: usize) {
        self.state.most.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn writes(&self) -> usize {
        self.state.writes.load(Ordering::Relaxed)
    }

    /// Returns the number of exchanges that were read in pages.
    pub(crate) fn read(&self) -> usize {
        self.state.read.load(Ordering::Relaxed)
    }

    fn call(&self) -> Result<(), StoreError> {
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        let less = |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
        let left = self.state.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.map(drop).map_err(|_| StoreError::unavailable("halted"))
    }
}

#[async_trait::async_trait]
impl HistoryStore for Halting {
    fn system(&self) -> &'static str {
        self.store.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.call()?;
        self.store.load(id, load).await
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.call()?;
        self.store.append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.call()?;
        self.store.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.call()?;
        // Pages are smaller than asked for.
        let page = self.store.read(id, from, limit.min(40)).await?;
        self.state.read.fetch_add(page.exchanges.len(), Ordering::Relaxed);
        Ok(page)
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.call()?;
        self.store.delete(id).await
    }
}

#[async_trait::async_trait]
impl Attach for Halting {
    async fn attach(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        remove: &[AttachmentKey],
        put: &[Attachment],
    ) -> Result<(), StoreError> {
        self.call()?;
        self.state.writes.fetch_add(1, Ordering::Relaxed);
        self.store.attach(id, incarnation, remove, put).await
    }

    async fn attachments(
        &self,
        id: &ConversationId,
        names: &[AttachmentName],
        limit: usize,
    ) -> Result<Attachments, StoreError> {
        self.call()?;
        let names = if self.state.blind.load(Ordering::Relaxed) { &[] } else { names };
        let limit = limit.min(self.state.most.load(Ordering::Relaxed));
        self.store.attachments(id, names, limit).await
    }

    async fn pick(&self, id: &ConversationId, positions: &[Seq]) -> Result<Page, StoreError> {
        self.call()?;
        self.store.pick(id, positions).await
    }
}
