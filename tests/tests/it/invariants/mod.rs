//! The invariants of `ARCHITECTURE.md`, over every store and in the typed integration, with a module for each.
//! Invariant 12 is tested in `telemetry`, where exported data can be read.

mod atomic;
mod complete;
mod conditional;
mod contract;
mod flat;
mod isolated;
mod lossless;
mod paid;
mod valid;
