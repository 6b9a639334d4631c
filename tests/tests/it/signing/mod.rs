//! Conversations with a provider that signs its reasoning, through the engine: whatever happens to a conversation, the
//! provider refuses no prompt of it.
//!
//! `PROPTEST_CASES=500000 cargo test --release -p tests --test it signing -- --nocapture` tests more cases, and prints
//! the share of the reasoning that was kept.

mod case;
mod figures;
mod late;
mod reasoning;
mod sending;
pub(crate) mod setup;
mod world;

use std::sync::Arc;

use proptest::test_runner::{Config, TestRunner};
use tests::{FullStore, Remote};
use tower_chat_history::{CachedStore, MemoryStore};
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_sqlite::SqliteStore;

use self::{
    case::{Case, any_case},
    figures::Figures,
    world::World,
};

/// Runs the property. `open` returns a handle of one store for each of two engines.
fn check(name: &str, many: u32, open: impl Fn() -> Arc<dyn FullStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let figures = Figures::default();
    let config = Config { cases: cases(many), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_case(), |case: Case| {
        runtime.block_on(async {
            let mut world = World::new(&case, [open(), open()]);
            let outcome = world.run(&case).await;
            world.end().await;
            figures.add(&world.figures);
            outcome
        })
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    if cases(many) >= 500 {
        figures.check_that_all_happened();
    }
    println!("{name}: {figures}");
}

#[test]
fn a_signing_provider_refuses_nothing_over_memory() {
    let store = MemoryStore::new();
    check("memory", 500, || Arc::new(store.clone()));
}

#[test]
fn a_signing_provider_refuses_nothing_over_a_cache() {
    let store = MemoryStore::new();
    check("cached", 200, || Arc::new(CachedStore::new(store.clone())));
}

#[test]
fn a_signing_provider_refuses_nothing_over_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(SqliteStore::open(path)).unwrap();
    check("sqlite", 150, || Arc::new(Remote(store.clone())));
}
