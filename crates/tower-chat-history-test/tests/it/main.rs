//! The test doubles.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

#[cfg(feature = "server")]
mod apis;
#[cfg(feature = "server")]
mod embeddings;
mod fault_store;
#[cfg(feature = "server")]
mod forms;
#[cfg(feature = "openai")]
mod llm;
#[cfg(feature = "server")]
mod provider;
mod responses;
mod rules;
#[cfg(all(feature = "openai", feature = "server"))]
mod server;
#[cfg(feature = "server")]
mod wire;
