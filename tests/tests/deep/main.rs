//! Input with 100,000 levels of lists and objects within each other, at every public entry point, on a stack of 256
//! KiB.
//!
//! A stack overflow is no panic: it ends the process. So each case runs in a process of its own, which is this program
//! again, and a process that is aborted fails its case only. The cases of `linear` compare the work for a text with
//! that for a longer one.
#![allow(clippy::unwrap_used)] // What fails ends its process, and fails its case.

/// Lists cases by their functions.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        &[$((stringify!($name), $name as fn())),+]
    };
}

mod adapters;
mod client;
mod core;
mod discarded;
mod engine;
mod linear;
mod stores;
mod texts;
mod tokens;

use std::{
    process::{Command, ExitCode},
    thread,
};

use libtest_mimic::{Arguments, Failed, Trial};

/// Which case a process is to run.
const CASE: &str = "TEST_DEEP_CASE";

/// The least stack that a thread may be expected to have.
const STACK: usize = 256 << 10;

/// A name that says what holds, and what shows it by ending without a panic.
pub(crate) type Case = (&'static str, fn());

/// Drives a future on the thread's own stack.
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
        discarded::CASES,
        stores::CASES,
        linear::CASES,
    ]
    .concat()
}

fn run_in_a_process_of_its_own(case: &str) -> Result<(), Failed> {
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
    let trial = |(name, _): Case| Trial::test(name, move || run_in_a_process_of_its_own(name));
    libtest_mimic::run(&Arguments::from_args(), cases().into_iter().map(trial).collect()).exit_code()
}
