//! Conversations that change their dialect at any moment: the providers of chat completions, of Anthropic's Messages
//! API and of OpenAI's Responses API refuse no request, whatever the others said before. All texts are sent, and all
//! calls, each with its result.
//!
//! `PROPTEST_CASES=5000 cargo test --release -p tests --test it switching -- --nocapture` tests more cases, and prints
//! their numbers.

mod api;
mod calls;
mod case;
mod world;

use std::{cell::RefCell, sync::Arc};

use proptest::test_runner::{Config, TestRunner};
use tests::{FullStore, Remote};
use tower_chat_history::MemoryStore;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_sqlite::SqliteStore;

use self::{
    case::{Case, any_case},
    world::{Figures, World},
};

/// Runs cases over a store.
fn check(name: &str, many: u32, store: impl Fn() -> Arc<dyn FullStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let figures = RefCell::new(Figures::default());
    let config = Config { cases: many, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_case(), |case: Case| {
        runtime.block_on(async {
            let mut world = World::new(&case, [store(), store()]);
            let outcome = world.run(&case).await;
            world.end().await;
            figures.borrow_mut().add(&world.figures);
            outcome
        })
    });
    let figures = figures.into_inner();
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    println!("{name}, {many} cases: {figures:?}");
    if many >= 100 {
        let Figures { requests, translated, left_out, compared, calls, refused_turns, too_large, abandoned } = figures;
        let all = [requests, translated, left_out, compared, calls, refused_turns, too_large, abandoned];
        assert!(all.iter().all(|number| *number > 0), "{figures:?}");
    }
}

#[test]
fn no_provider_refuses_a_conversation_that_changes_its_dialect_over_memory() {
    let store = MemoryStore::new();
    check("memory", cases(400), || Arc::new(store.clone()));
}

#[test]
fn no_provider_refuses_a_conversation_that_changes_its_dialect_over_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("chat.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = runtime.block_on(SqliteStore::open(path)).unwrap();
    check("sqlite", cases(100), || Arc::new(Remote(store.clone())));
}
