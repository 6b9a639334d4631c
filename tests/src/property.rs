//! Property tests of asynchronous code.

use std::fmt::Debug;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};
use tokio::runtime::Handle;
use tower_chat_history_conformance::shorthand;

/// Runs a test on `cases` generated values, or on `PROPTEST_CASES` values if that variable is set. A value
/// that fails is shrunk. This needs a runtime with several threads.
#[allow(clippy::needless_pass_by_value)] // Callers create strategies in place.
pub fn check<T: Debug>(cases: u32, strategy: impl Strategy<Value = T>, test: impl AsyncFn(T)) {
    let config = Config { cases: shorthand::cases(cases), failure_persistence: None, ..Config::default() };
    let outcome = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&strategy, |value| {
            Handle::current().block_on(test(value));
            Ok(())
        })
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}
