//! Every row of `docs/cases.md`, over every store: what the caller gets, and what is stored. The rows about
//! extractors are in `tests/it/http.rs` and `tests/it/shapes/extractors.rs` of the main crate, because they
//! do not depend on the store.
//!
//! Killed processes are tested in `torture.rs`.

mod caller;
mod http;
mod limits;
mod log;
mod model;
mod replicas;
mod reply;
mod request;
mod save;
mod store;
mod stream;
