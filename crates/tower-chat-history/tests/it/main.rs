//! The layer, the engine and the stores of this crate.
//!
//! The files next to this folder are separate test binaries. `cache_limit` and `memory_limit` set a global allocator.
//! `causes`, `management`, `summaries_quiet` and `unreadable_warned` set a subscriber, which calls on other threads
//! would disturb.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod beginnings;
mod cached_store;
mod commit;
mod compactions;
#[cfg(feature = "config")]
mod config;
mod conformance_failures;
mod counts;
mod dialects;
mod editing;
mod engine;
mod explain;
mod foreign;
#[cfg(feature = "http")]
mod http;
mod limits;
mod media;
mod memory_store;
mod metadata;
mod middleware;
mod open_calls;
mod openings;
mod own_adapter;
mod own_dialect;
mod paused;
mod photos;
mod queue;
mod quotes;
mod reasoning;
mod recall;
mod repeated;
mod resent;
mod responses;
mod results;
mod retention;
mod sealed;
mod shapes;
mod streams;
mod strict;
mod summaries;
mod support;
mod too_long;
mod transcript;
mod translation;
mod unreadable;
