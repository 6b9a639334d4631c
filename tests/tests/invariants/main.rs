//! The invariants of `DESIGN.md`, over every store and through the typed door. Each module is one of them.

#![allow(clippy::unwrap_used)] // A test may.

mod atomic;
mod complete;
mod conditional;
mod contract;
mod flat;
mod isolated;
mod lossless;
mod paid;
mod quiet;
mod valid;
