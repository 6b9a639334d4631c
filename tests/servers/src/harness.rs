//! Tests that are listed at run time, because they depend on a server, or because there are many of them.

use std::{env, num::NonZero, panic::AssertUnwindSafe, process::ExitCode, sync::Arc, thread::available_parallelism};

use libtest_mimic::{Arguments, Trial};
use tower_chat_history_conformance::store::{Capability, Fixture, behaviors};

/// Lists tests by their functions. The name of a test is its function's, after the path of its module.
///
/// The functions are asynchronous, and [`test`](crate::test) runs each in a runtime. Those after `blocking:` are plain
/// functions that run without one.
///
/// ```
/// use test_servers::trials;
///
/// async fn a_call_succeeds() {}
/// fn no_runtime_is_needed() {}
///
/// let tests = trials![a_call_succeeds; blocking: no_runtime_is_needed];
/// # let last = |name: &str| name.rsplit("::").next().map(str::to_owned);
/// # let names: Vec<_> = tests.iter().filter_map(|test| last(test.name())).collect();
/// assert_eq!(names, ["a_call_succeeds", "no_runtime_is_needed"]);
/// ```
#[macro_export]
macro_rules! trials {
    ($($name:ident),* $(,)? $(; blocking: $($blocking:ident),+ $(,)?)?) => {
        ::std::vec![
            $($crate::test($crate::name(::std::module_path!(), ::std::stringify!($name)), $name),)*
            $($($crate::blocking_test($crate::name(::std::module_path!(), ::std::stringify!($blocking)), $blocking),)+)?
        ]
    };
}

/// Returns the name of a test: the path of its module in the crate, and the name of its function.
#[doc(hidden)]
#[must_use]
pub fn name(module: &str, function: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{function}"),
        None => function.to_owned(),
    }
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| value == "1")
}

/// Returns true if servers must not be used, even if they are installed.
#[must_use]
pub fn is_without_servers() -> bool {
    is_set("WITHOUT_SERVERS")
}

/// Reports that tests are left out, because a server was not found or must not be used.
///
/// # Panics
///
/// If the environment has `REQUIRE_SERVERS=1`.
pub fn left_out(server: &str) {
    let why = if is_without_servers() { "is not used: WITHOUT_SERVERS=1" } else { "was not found" };
    assert!(!is_set("REQUIRE_SERVERS"), "{server} {why}, but REQUIRE_SERVERS=1 demands it");
    eprintln!("left out: {server} {why}");
}

/// The main function of a test file whose tests need a server: runs them, or lists them as ignored if it was not found.
///
/// Two tests run at a time on each processor, because these tests wait for the server, its disk, or timeouts for about
/// half of their time.
#[must_use]
pub fn run(server: &str, found: bool, tests: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let processors = available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(2 * processors);
    run_listed(&arguments, [(Some((server, found)), tests)])
}

/// Like [`run`], for groups of tests that need different servers, or none. One test runs at a time on each processor.
#[must_use]
pub fn run_groups<'a>(groups: impl IntoIterator<Item = (Option<(&'a str, bool)>, Vec<Trial>)>) -> ExitCode {
    run_listed(&Arguments::from_args(), groups)
}

fn run_listed<'a>(
    arguments: &Arguments,
    groups: impl IntoIterator<Item = (Option<(&'a str, bool)>, Vec<Trial>)>,
) -> ExitCode {
    let mut tests = Vec::new();
    for (server, group) in groups {
        let found = server.is_none_or(|(_, found)| found);
        if let Some((server, false)) = server
            && !arguments.list
        {
            // The output of a listing is read by programs.
            left_out(server);
        }
        tests.extend(group.into_iter().map(|test| {
            let is_ignored = test.has_ignored_flag();
            test.with_ignored_flag(is_ignored || !found)
        }));
    }
    libtest_mimic::run(arguments, tests).exit_code()
}

/// Returns a test of an async function, in a tokio runtime with two threads.
pub fn test<F>(name: impl Into<String>, body: impl FnOnce() -> F + Send + 'static) -> Trial
where
    F: Future<Output = ()>,
{
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // The runtime must outlive a panic, so that values in its tasks are dropped in it.
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(body())));
        drop(runtime);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(())
    })
}

/// Returns a test of a plain function, without a runtime.
#[doc(hidden)]
pub fn blocking_test(name: impl Into<String>, body: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        body();
        Ok(())
    })
}

/// Returns one test for each behavior of the conformance suite. The kind of each test is `store`. Tests that need an
/// ability which the store lacks are ignored.
///
/// The fixture is created for each test, within its runtime.
pub fn conformance<F, M>(store: &str, lacking: &[Capability], fixture: M) -> Vec<Trial>
where
    F: Fixture,
    M: AsyncFn() -> F + Send + Sync + 'static,
{
    let fixture = Arc::new(fixture);
    let tests = behaviors().into_iter().map(|behavior| {
        let make = Arc::clone(&fixture);
        let run = move || async move { behavior.run(&make().await).await };
        let is_ignored = behavior.needs.iter().any(|needed| lacking.contains(needed));
        test(behavior.name, run).with_kind(store).with_ignored_flag(is_ignored)
    });
    tests.collect()
}
