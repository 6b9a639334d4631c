//! Every row of `docs/cases.md`, over every store: what the caller gets, and what is stored. The rows of extractors are
//! `tests/http.rs` and `tests/shapes/extractors.rs` of the crate that has them: no store has a part in them.
//!
//! Killed processes are in `torture.rs`.

#![allow(clippy::unwrap_used)] // A test may.

mod caller;
mod http;
mod log;
mod model;
mod replicas;
mod reply;
mod request;
mod save;
mod store;
mod stream;
