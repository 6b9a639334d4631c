//! The invariants of `DESIGN.md`, over every store and through the typed door. Each module is one of them.
//! (Number 12 is in `telemetry`: it looks at what is exported.)

mod atomic;
mod complete;
mod conditional;
mod contract;
mod flat;
mod isolated;
mod lossless;
mod paid;
mod valid;
