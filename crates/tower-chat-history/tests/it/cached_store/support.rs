//! Shared parts of the tests of `CachedStore`.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore, MemoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Expect, Incarnation, KnownState, Load, LoadLimit, Loaded, Page,
        Profile, Seq,
    },
};

/// A store that counts the windows that it returns, and the exchanges that it returns as added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) inner: MemoryStore,
    windows: Arc<AtomicUsize>,
    added: Arc<AtomicUsize>,
    /// The known state of the last load.
    pub(crate) known: Arc<Mutex<Option<KnownState>>>,
}

impl Counted {
    /// Returns the number of windows since the last call of this function.
    pub(crate) fn windows(&self) -> usize {
        self.windows.swap(0, Relaxed)
    }

    /// Returns the number of exchanges that were returned as added since the last call of this function.
    pub(crate) fn added(&self) -> usize {
        self.added.swap(0, Relaxed)
    }
}

#[async_trait]
impl HistoryStore for Counted {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.known.lock().unwrap().clone_from(&load.known);
        let loaded = self.inner.load(id, load).await;
        match &loaded {
            Ok(Loaded::Window(_)) => self.windows.fetch_add(1, Relaxed),
            Ok(Loaded::Added(added)) => self.added.fetch_add(added.exchanges.len(), Relaxed),
            _ => 0,
        };
        loaded
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.inner.append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.inner.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

pub(crate) fn id(name: impl AsRef<str>) -> ConversationId {
    ConversationId::new(["cached", name.as_ref()]).unwrap()
}

/// A turn of two messages.
pub(crate) fn turn() -> Append {
    let messages = [Message::user("What does Tom chase?"), Message::assistant("Mice!")];
    Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages))
}

/// Returns a load of this profile, of at most this many messages and one mebibyte.
pub(crate) fn of(profile: &str, messages: usize) -> Load {
    Load::new().profile(Profile::new(profile).unwrap()).limit(LoadLimit::new(messages, 1 << 20).unwrap())
}

/// Returns the number of exchanges in the window.
pub(crate) async fn len(store: &impl HistoryStore, id: &ConversationId, load: Load) -> usize {
    let Loaded::Window(window) = store.load(id, load).await.unwrap() else { panic!("no window") };
    window.exchanges.len()
}
