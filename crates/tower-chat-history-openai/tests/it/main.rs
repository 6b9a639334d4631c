//! Tests of the adapter, the services, the client, the embeddings and the counters.
//!
//! The other test binaries need separate processes. `client_endpoints`, `error_types`, `trace_context` and
//! `trace_context_off` set a subscriber or a propagator for the whole process. `tokens_ready` needs tables that are not
//! built yet. `tokens_hostile` measures processor time.
#![allow(clippy::unwrap_used)] // A test may.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "recall")]
mod embeddings;
#[cfg(feature = "client")]
mod providers;
#[cfg(feature = "recall")]
mod recall;
#[cfg(feature = "client")]
mod recorded;
#[cfg(all(feature = "bpe-openai", feature = "tiktoken"))]
mod tokens_agree;
