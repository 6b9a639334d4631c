//! Property tests of asynchronous code.

use std::fmt::Debug;

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};
use tokio::runtime::Handle;

/// Runs a test on `cases` generated values, or on `PROPTEST_CASES` values if that variable is set. A value
/// that fails is shrunk. This needs a runtime with several threads.
#[allow(clippy::needless_pass_by_value)] // Callers create strategies in place.
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
