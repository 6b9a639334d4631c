//! Tests over every store and through all integrations.
//!
//! Some tests need a binary of their own, in the folders and files next to this one: `deep` runs each case in
//! a process, `many` measures the memory of its process, `telemetry` has one subscriber for all of its tests,
//! and the list of tests of `torture` depends on the installed servers.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod budget;
mod call_options;
mod cases;
mod dialects;
mod encryption;
mod erasure;
mod http_layer;
mod invariants;
mod messages;
mod other_dialects;
mod random;
mod recall;
mod repair;
mod signing;
mod switching;
mod transcripts;
mod typed_and_client;
mod worked_log;
