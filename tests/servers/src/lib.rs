//! Temporary servers for tests, [Python programs](python) whose data tests read, and lists of tests that are made at
//! run time. Servers are started from installed binaries when a test first needs them, and end with the test process,
//! even if it is killed.
//!
//! Test files that need a server have `harness = false` and call [`run`]. If the server is not installed, their tests
//! are listed as ignored, and a line reports that. With `REQUIRE_SERVERS=1` in the environment, a missing server is a
//! failure. With `WITHOUT_SERVERS=1`, no server is used, even if it is installed.

// Assertions are the purpose of this crate.
#![allow(clippy::unwrap_used)]

pub mod cluster;
mod harness;
pub mod postgres;
mod process;
pub mod python;
pub mod redis;
pub mod tls;

#[doc(hidden)]
pub use self::harness::{blocking_test, name};
pub use self::{
    harness::{conformance, is_without_servers, left_out, run, run_groups, test},
    process::{Process, directory, find, free_ports},
};
