//! The adapter, the services, the client and the counters.
//!
//! Binaries of their own, beside this folder: `client_endpoints`, `error_types`, `trace_context` and
//! `trace_context_off` have a subscriber or a propagator of their process. `tokens_ready` needs tables that are
//! not built yet. `tokens_hostile` measures time.
#![allow(clippy::unwrap_used)] // A test may.

#[cfg(feature = "client")]
mod client_door;
#[cfg(feature = "client")]
mod recorded;
#[cfg(all(feature = "bpe-openai", feature = "tiktoken"))]
mod tokens_agree;
