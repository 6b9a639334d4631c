//! The layer, the engine and the stores of this crate.
//!
//! Binaries of their own, beside this folder: `cache_limit` and `memory_limit` have an allocator of their own.
//! `causes`, `summaries_quiet` and `unreadable_warned` have a subscriber, which calls on other threads would disturb.
#![allow(clippy::unwrap_used)] // A test may.

mod cached_store;
mod commit;
mod conformance_failures;
mod counts;
mod editing;
mod engine;
mod foreign;
#[cfg(feature = "http")]
mod http;
mod memory_store;
mod middleware;
mod open_calls;
mod openings;
mod own_adapter;
#[cfg(feature = "testing")]
mod queue;
mod repeated;
mod resent;
mod results;
mod retention;
mod shapes;
mod streams;
mod summaries;
mod support;
mod transcript;
mod trim;
mod unreadable;
