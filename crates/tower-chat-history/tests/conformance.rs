//! The conformance suite over all stores of this crate. The tests are listed at run time, because a named test of each
//! behavior for each store would take a minute to compile.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use test_servers::conformance;
use tower_chat_history::{CachedStore, ConversationId, HistoryStore, MemoryStore, RoutedStore, store};
use tower_chat_history_conformance::store::{Capability, Fixture, Handle, all};

/// Each handle has its own cache, like another process.
struct Replicas(MemoryStore);

#[async_trait]
impl Fixture for Replicas {
    async fn open(&self) -> Handle {
        Handle::with_all(CachedStore::new(self.0.clone()))
    }
}

/// Returns the number of one of two stores. Each gets about half of the conversations.
fn half(id: &ConversationId) -> usize {
    id.as_str().bytes().map(usize::from).sum::<usize>() % 2
}

fn routed_to_one_type() -> Handle {
    let stores = [MemoryStore::new(), MemoryStore::new()];
    let store: Arc<dyn store::Truncate> =
        Arc::new(RoutedStore::new(move |id: &ConversationId| stores[half(id)].clone()));
    Handle::new(Arc::clone(&store)).truncate(store)
}

fn routed_to_any_type() -> Handle {
    let stores: [Arc<dyn HistoryStore>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    Handle::new(RoutedStore::new(move |id: &ConversationId| Arc::clone(&stores[half(id)])))
}

/// Returns the number of one of two stores, by the first part of the id. A log and its copy are in the same one.
fn by_tenant(id: &ConversationId) -> usize {
    id.parts().next().map_or(0, |tenant| tenant.len())
}

fn routed_over_a_list(
    choose: fn(&ConversationId) -> usize,
) -> impl store::Truncate + store::Prune + store::Fork + store::Erase + Clone {
    let stores = [("one", MemoryStore::new()), ("two", MemoryStore::new())];
    RoutedStore::over(stores, choose).unwrap()
}

/// A copy could be in another store than its log, so this store does not fork.
fn routed_by_half() -> Handle {
    let store = routed_over_a_list(half);
    Handle::new(store.clone()).truncate(store.clone()).prune(store.clone()).erase(store)
}

/// Runs the suite in one function over one storage.
async fn all_behaviors_share_one_storage() {
    let left_out = all(&Handle::with_all(MemoryStore::new())).await;
    let needs_opening =
        |name: &str| name.starts_with("reopen::") || name.ends_with("_persists") || name.ends_with("_persist");
    assert!(!left_out.is_empty() && left_out.iter().all(|name| needs_opening(name)), "{left_out:?}");
}

fn main() -> ExitCode {
    use Capability::{Durable, Erase, Fork, Prune, Truncate};

    let cached = || CachedStore::new(MemoryStore::new());
    let without_room = || CachedStore::with_limit(MemoryStore::new(), 0);
    let lacking_of_one_type = [Durable, Prune, Fork, Erase];
    let lacking_of_any_type = [Durable, Truncate, Prune, Fork, Erase];
    let tests = [
        conformance("memory", &[Durable], async || Handle::with_all(MemoryStore::new())),
        // An `Arc` forwards the calls of every store in the same way, so one store is enough.
        conformance("memory, in an Arc", &[Durable], async || Handle::with_all(Arc::new(MemoryStore::new()))),
        conformance("cached, between replicas", &[Durable], async || Replicas(MemoryStore::new())),
        // All handles share one cache, like the tasks of one process.
        conformance("cached, between handles", &[Durable], async move || Handle::with_all(cached())),
        // Windows that do not fit are not cached, and everything else works as before.
        conformance("cached, without room", &[Durable], async move || Handle::with_all(without_room())),
        conformance("routed to one type", &lacking_of_one_type, async || routed_to_one_type()),
        conformance("routed to any type", &lacking_of_any_type, async || routed_to_any_type()),
        conformance("routed over a list", &[Durable, Fork], async || routed_by_half()),
        conformance("routed by tenant", &[Durable], async || Handle::with_all(routed_over_a_list(by_tenant))),
        vec![test_servers::test("all_behaviors_share_one_storage", all_behaviors_share_one_storage)],
    ];
    test_servers::run_groups([(None, tests.into_iter().flatten().collect())])
}
