//! The SQLite store on real files.
#![allow(clippy::unwrap_used)] // A test may.

mod batching;
mod conformance;
mod cost;
mod crash;
mod damage;
mod damaged_rows;
mod opening;
mod paths;
mod paths_of_a_process;
mod racing;
mod refused;
mod support;
