//! Tests of recall: what a search finds and may show, blocks that nothing breaks out of, and the gate.
#![allow(clippy::unwrap_used)] // A test may.

mod block;
mod gate;
mod halting;
mod logs;
mod meaning;
mod others;
mod others_cost;
mod others_meaning;
mod pauses;
mod removed;
mod search;
mod select;
mod store;
mod tool;
