//! Tests of the layer over HTTP requests. The binary `trace_context` needs a separate process, because it sets a
//! propagator for the whole process.
#![allow(clippy::unwrap_used)] // A test may.

mod bad_input;
mod bodies;
mod contract;
mod documented;
mod errors;
mod hostile;
mod large;
mod messages;
mod mock_messages;
mod parts;
mod passing;
mod providers;
mod readers;
mod repair;
mod requests;
mod responses;
mod responses_api;
mod routes;
mod stalls;
mod streams;
mod support;
mod translation;
