//! Tests that are made at run time, since they depend on a server.

use std::{env, panic::AssertUnwindSafe, process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Trial};
use tower_chat_history_core::testing::{Fixture, ThroughArc, behaviors};

/// Says plainly that tests are left out, since a server was not found.
///
/// # Panics
///
/// If the environment has `REQUIRE_SERVERS=1`.
pub fn left_out(what: &str) {
    let required = env::var_os("REQUIRE_SERVERS").is_some_and(|value| value == "1");
    assert!(!required, "{what} was not found, and REQUIRE_SERVERS=1 says that it must be there");
    eprintln!("left out: {what} was not found");
}

/// The main function of a test file whose tests need a server: runs them, or lists them as ignored if it was not found.
#[must_use]
pub fn run(what: &str, found: bool, tests: Vec<Trial>) -> ExitCode {
    let arguments = Arguments::from_args();
    // Listing is not running: a list is read by a program.
    if !found && !arguments.list {
        left_out(what);
    }
    let tests = tests.into_iter().map(|test| test.with_ignored_flag(!found)).collect();
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// A test of that name: an async function, in a tokio runtime with two threads.
pub fn test<F>(name: impl Into<String>, body: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // The runtime must outlive a panic, so that what its tasks hold is dropped in it.
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(body())));
        drop(runtime);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(())
    })
}

/// Tests of every behavior of the conformance suite, on the store itself and through an `Arc<dyn HistoryStore>`.
///
/// The fixture is made anew for each test, within its runtime.
pub fn conformance<F, M>(fixture: M) -> Vec<Trial>
where
    F: Fixture,
    M: AsyncFn() -> F + Send + Sync + 'static,
{
    let fixture = Arc::new(fixture);
    let mut tests = Vec::new();
    for behavior in behaviors() {
        let make = Arc::clone(&fixture);
        tests.push(test(format!("store::{}", behavior.name()), move || async move {
            behavior.run(&make().await).await;
        }));
        let make = Arc::clone(&fixture);
        tests.push(test(format!("through_arc::{}", behavior.name()), move || async move {
            behavior.run(&ThroughArc(make().await)).await;
        }));
    }
    tests
}
