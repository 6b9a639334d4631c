//! The conformance suite over all stores of this crate. The tests are listed at run time, because a named test of each
//! behavior for each store would take a minute to compile.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use test_servers::conformance;
use tower_chat_history::{
    CachedStore, ConversationId, HistoryStore, MemoryStore, RoutedStore,
    store::{Erase, Prune, StoreList, Truncate},
};
use tower_chat_history_conformance::store::{Capabilities, Capability, Fixture, SharedStore, all};

/// Each handle has its own cache, like another process.
struct Replicas(MemoryStore);

impl Replicas {
    fn replica(&self) -> CachedStore<MemoryStore> {
        CachedStore::new(self.0.clone())
    }
}

#[async_trait]
impl Fixture for Replicas {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.replica())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.replica()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.replica()))
    }

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.replica()))
    }
}

/// The same storage, with each handle in one more `Arc`.
struct ThroughArc<F>(F);

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

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        let inner = self.0.open_erase().await?;
        Some(Arc::new(inner))
    }
}

/// Returns the number of one of two stores. Each gets about half of the conversations.
fn half(id: &ConversationId) -> usize {
    id.as_str().bytes().map(usize::from).sum::<usize>() % 2
}

fn routed_to_one_type() -> Arc<dyn Truncate> {
    let stores = [MemoryStore::new(), MemoryStore::new()];
    Arc::new(RoutedStore::new(move |id: &ConversationId| stores[half(id)].clone()))
}

fn routed_to_any_type() -> Arc<dyn HistoryStore> {
    let stores: [Arc<dyn HistoryStore>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    Arc::new(RoutedStore::new(move |id: &ConversationId| Arc::clone(&stores[half(id)])))
}

type RoutedOverList = RoutedStore<StoreList<MemoryStore, fn(&ConversationId) -> usize>>;

fn routed_over_a_list() -> SharedStore<RoutedOverList> {
    let stores = [("one", MemoryStore::new()), ("two", MemoryStore::new())];
    SharedStore(RoutedStore::over(stores, half as fn(&ConversationId) -> usize).unwrap())
}

/// Runs the suite in one function over one storage.
async fn all_behaviors_share_one_storage() {
    let left_out = all(&SharedStore(MemoryStore::new())).await;
    let needs_opening =
        |name: &str| name.starts_with("reopen::") || name.ends_with("_persists") || name.ends_with("_persist");
    assert!(!left_out.is_empty() && left_out.iter().all(|name| needs_opening(name)), "{left_out:?}");
}

fn main() -> ExitCode {
    use Capability::{Durable, Erase, Prune, Truncate};

    let cached = || CachedStore::new(MemoryStore::new());
    let without_room = || CachedStore::with_limit(MemoryStore::new(), 0);
    let lacking_of_one_type = [Durable, Prune, Erase];
    let lacking_of_any_type = [Durable, Truncate, Prune, Erase];
    let tests = [
        conformance("memory", &[Durable], async || SharedStore(MemoryStore::new())),
        // An `Arc` forwards the calls of every store in the same way, so one store is enough.
        conformance("memory, in an Arc", &[Durable], async || ThroughArc(SharedStore(MemoryStore::new()))),
        conformance("cached, between replicas", &[Durable], async || Replicas(MemoryStore::new())),
        // All handles share one cache, like the tasks of one process.
        conformance("cached, between handles", &[Durable], async move || SharedStore(cached())),
        // Windows that do not fit are not cached, and everything else works as before.
        conformance("cached, without room", &[Durable], async move || SharedStore(without_room())),
        conformance("routed to one type", &lacking_of_one_type, async || routed_to_one_type()),
        conformance("routed to any type", &lacking_of_any_type, async || routed_to_any_type()),
        conformance("routed over a list", &[Durable], async || routed_over_a_list()),
        vec![test_servers::test("all_behaviors_share_one_storage", all_behaviors_share_one_storage)],
    ];
    test_servers::run_groups([(None, tests.into_iter().flatten().collect())])
}
