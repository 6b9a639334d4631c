//! The SQLite store on real files.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod batching;
mod compactions;
mod conformance;
mod cost;
mod crash;
mod damage;
mod damaged_entries;
mod damaged_rows;
mod erasing;
mod forking;
mod opening;
mod paths;
mod paths_in_child;
mod provenance;
mod racing;
mod recalled;
mod refused;
mod scrubbing;
mod support;
