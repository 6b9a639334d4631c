//! Throw-away servers for tests: started from installed binaries when a test first asks for one, and ended with the test
//! process, however that ends.
//!
//! Test files that need one have `harness = false` and call [`run`]: where the server is not installed, their tests are listed
//! as ignored and a line says so. With `REQUIRE_SERVERS=1` in the environment that is a failure.

pub mod cluster;
mod harness;
pub mod postgres;
mod process;
pub mod redis;

pub use self::{
    harness::{conformance, left_out, run, test},
    process::{Process, directory, find, free_ports},
};
