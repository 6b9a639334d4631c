//! Conversations in the format of Anthropic's Messages API, through the engine: whatever happens to a conversation, the
//! API refuses no request of it.
//!
//! `PROPTEST_CASES=100000 cargo test --release -p tests --test it messages -- --nocapture` tests more cases, and prints
//! the numbers of requests and thinking blocks.

mod case;
mod world;

use std::{cell::RefCell, sync::Arc};

use proptest::test_runner::{Config, TestRunner};
use tower_chat_history::MemoryStore;
use tower_chat_history_conformance::shorthand::cases;
use tower_chat_history_test::messages::ThinkingCounts;

use self::{
    case::{Case, any_case},
    world::{Figures, World},
};

/// Runs cases, and returns their numbers. `breaks_rule` sends thinking wherever it was made.
fn run(many: u32, breaks_rule: bool) -> (Result<(), String>, Figures) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let figures = RefCell::new(Figures::default());
    let config = Config { cases: many, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&any_case(), |case: Case| {
        runtime.block_on(async {
            let store = MemoryStore::new();
            let mut world = World::new(&case, [Arc::new(store.clone()), Arc::new(store)], breaks_rule);
            let outcome = world.run(&case).await;
            world.end().await;
            figures.borrow_mut().add(&world.figures());
            outcome
        })
    });
    (outcome.map_err(|error| error.to_string()), figures.into_inner())
}

#[test]
fn the_api_refuses_no_request() {
    let many = cases(256);
    let (outcome, figures) = run(many, false);
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    if many >= 100 {
        let ThinkingCounts { sent, missing, .. } = figures.thinking;
        assert!(sent > 0 && missing > 0 && figures.compared > 0 && figures.with_calls > 0, "{figures:?}");
        assert!(figures.resumed > 0, "{figures:?}");
    }
    println!("{figures:?}");
}

#[test]
fn the_api_refuses_requests_if_thinking_is_sent_after_other_prompts() {
    let (outcome, _) = run(256, true);
    let refused = outcome.unwrap_err();
    assert!(refused.contains("Invalid `signature` in `thinking` block"), "{refused}");
}
