//! Input with 100,000 nested lists and objects, at every public entry point, on a stack of 256 KiB.
//!
//! A stack overflow is not a panic: it ends the process. Each case therefore runs in a child process, which
//! is this program again, so that an overflow fails its own case only. The cases of `linear` compare the work
//! for a text with that for a longer one.
#![allow(clippy::unwrap_used)] // A failed unwrap ends the process and fails its case.

/// Lists cases by their functions.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        &[$((stringify!($name), $name as fn())),+]
    };
}

mod adapters;
mod client;
mod core;
mod engine;
mod http;
mod linear;
mod responses;
mod stores;
mod texts;
mod tokens;

use std::{
    process::{Command, ExitCode},
    thread,
};

use libtest_mimic::{Arguments, Failed, Trial};

/// The variable that names the case of a child process.
const CASE: &str = "TEST_DEEP_CASE";

/// The smallest stack that a thread is expected to have.
const STACK: usize = 256 << 10;

/// The name and the function of a case. The function must end without a panic.
pub(crate) type Case = (&'static str, fn());

/// Runs a future on the stack of this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn cases() -> Vec<Case> {
    [
        core::CASES,
        tokens::CASES,
        engine::CASES,
        adapters::CASES,
        client::CASES,
        http::CASES,
        stores::CASES,
        linear::CASES,
        responses::CASES,
    ]
    .concat()
}

fn run_in_child_process(case: &str) -> Result<(), Failed> {
    let ran = Command::new(std::env::current_exe()?).env(CASE, case).output()?;
    if ran.status.success() {
        return Ok(());
    }
    let notes = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{}\n{}", ran.status, notes.chars().take(2_000).collect::<String>()).into())
}

fn main() -> ExitCode {
    if let Ok(wanted) = std::env::var(CASE) {
        let (_, case) = cases().into_iter().find(|(name, _)| *name == wanted).unwrap();
        let ended = thread::Builder::new().stack_size(STACK).spawn(case).unwrap().join();
        return if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let trial = |(name, _): Case| Trial::test(name, move || run_in_child_process(name));
    libtest_mimic::run(&Arguments::from_args(), cases().into_iter().map(trial).collect()).exit_code()
}
