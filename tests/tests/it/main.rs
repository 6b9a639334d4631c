//! Tests over every store and through both integrations.
//!
//! Binaries of their own, beside this folder: each case of `deep` is a process. `many` measures the memory of its
//! process. `telemetry` has one subscriber for all of its tests. The list of tests of `torture` depends on the servers.
#![allow(clippy::unwrap_used)] // A test may.

mod budget;
mod cases;
mod doors;
mod invariants;
mod random;
mod transcripts;
mod typed_door;
mod worked_log;
