//! Tests of the layer over HTTP requests. The binary `trace_context` needs a separate process, because it sets a
//! propagator for the whole process.
#![allow(clippy::unwrap_used)] // A test may.

mod bodies;
mod contract;
mod errors;
mod hostile;
mod messages;
mod passing;
mod providers;
mod requests;
mod responses;
mod responses_api;
mod streams;
mod support;
