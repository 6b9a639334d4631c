//! A store in memory whose calls are counted and can be interrupted.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tower_chat_history::MemoryStore;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Cursor, Expect, HistoryStore, HistoryStoreExt,
    Incarnation, Labels, LabelsOutcome, LabelsVersion, List, Listed, Listing, Load, Loaded, Page, Prefix, Seq,
    StoreError,
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
    calls: AtomicUsize,
    /// The number of exchanges that were read.
    read: AtomicUsize,
    /// The conversation whose exchanges cannot be read.
    failing: Mutex<Option<ConversationId>>,
    /// The conversation whose exchanges are never returned.
    hanging: Mutex<Option<ConversationId>>,
    /// The conversation that is erased as soon as it was listed, and begun again.
    vanishing: Mutex<Option<ConversationId>>,
    /// The conversations that are listed under each prefix, although they are not under it.
    strangers: Mutex<Vec<Listed>>,
}

impl Halting {
    pub(crate) fn new() -> Self {
        let state = State {
            left: AtomicUsize::new(usize::MAX),
            calls: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            failing: Mutex::default(),
            hanging: Mutex::default(),
            vanishing: Mutex::default(),
            strangers: Mutex::default(),
        };
        Self { store: Arc::new(MemoryStore::new()), state: Arc::new(state) }
    }

    /// Lets only so many more calls succeed.
    pub(crate) fn halt_after(&self, calls: usize) {
        self.state.left.store(calls, Ordering::Relaxed);
    }

    /// Lets all reads of a conversation fail.
    pub(crate) fn fail_for(&self, id: &ConversationId) {
        *self.state.failing.lock().unwrap() = Some(id.clone());
    }

    /// Erases a conversation as soon as it was listed, and begins it again with the same messages.
    pub(crate) fn erase_after_listing(&self, id: &ConversationId) {
        *self.state.vanishing.lock().unwrap() = Some(id.clone());
    }

    /// Lists a conversation under each prefix.
    pub(crate) async fn list_everywhere(&self, id: &ConversationId) {
        let listed = self.store.describe(id).await.unwrap().unwrap();
        self.state.strangers.lock().unwrap().push(listed);
    }

    /// Lets all reads of a conversation wait forever.
    pub(crate) fn hang_for(&self, id: &ConversationId) {
        *self.state.hanging.lock().unwrap() = Some(id.clone());
    }

    async fn call_for(&self, id: &ConversationId) -> Result<(), StoreError> {
        let hangs = self.state.hanging.lock().unwrap().as_ref() == Some(id);
        if hangs {
            pending::<()>().await;
        }
        let fails = self.state.failing.lock().unwrap().as_ref() == Some(id);
        if fails { Err(StoreError::unavailable("it fails")) } else { self.call() }
    }

    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::Relaxed)
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
        self.call_for(id).await?;
        // Pages are smaller than asked for. Like those of databases, they also end before 4 MiB are exceeded.
        let mut page = self.store.read(id, from, limit.min(40)).await?;
        let mut bytes = 0;
        let fitting = page.exchanges.iter().take_while(|recorded| {
            bytes += recorded.exchange.bytes();
            bytes <= 4 << 20
        });
        let count = fitting.count().max(1);
        page.more |= count < page.exchanges.len();
        page.exchanges.truncate(count);

        self.state.read.fetch_add(page.exchanges.len(), Ordering::Relaxed);
        Ok(page)
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.call()?;
        self.store.delete(id).await
    }
}

#[async_trait::async_trait]
impl List for Halting {
    async fn list(&self, under: &Prefix, after: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.call()?;
        let mut page = self.store.list(under, after, limit).await?;
        page.conversations.extend(self.state.strangers.lock().unwrap().iter().cloned());
        let vanishing = self.state.vanishing.lock().unwrap().take();
        if let Some(vanishing) = vanishing {
            let exchanges = self.store.conversation(&vanishing).exchanges().await?;
            self.store.delete(&vanishing).await?;
            for recorded in exchanges {
                self.store.append(&vanishing, Append::new(Expect::AnyOrCreate, (*recorded.exchange).clone())).await?;
            }
        }
        Ok(page)
    }

    async fn describe(&self, id: &ConversationId) -> Result<Option<Listed>, StoreError> {
        self.call()?;
        self.store.describe(id).await
    }

    async fn set_labels(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        replaces: LabelsVersion,
        labels: Labels,
    ) -> Result<LabelsOutcome, StoreError> {
        self.call()?;
        self.store.set_labels(id, incarnation, replaces, labels).await
    }
}
