//! Properties of asynchronous code.

use std::fmt::Debug;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};
use tokio::runtime::Handle;

/// Runs a test on that many generated values, or on as many as `PROPTEST_CASES` says, and shrinks the one it fails for. It
/// needs a runtime with several threads.
#[allow(clippy::needless_pass_by_value)] // Strategies are made where they are used.
pub fn check<T: Debug>(cases: u32, strategy: impl Strategy<Value = T>, test: impl AsyncFn(T)) {
    let default = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { cases };
    let config = Config { cases, failure_persistence: None, ..default };
    let outcome = tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&strategy, |value| {
            Handle::current().block_on(test(value));
            Ok(())
        })
    });
    assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
}
