//! Every row of `docs/cases.md`, over every store: what the caller gets, and what is stored. The rows of extractors are
//! `tests/it/http.rs` and `tests/it/shapes/extractors.rs` of the crate that has them: no store has a part in them.
//!
//! Killed processes are in `torture.rs`.

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
