//! Tests of recall: the same result whatever is indexed, blocks that nothing breaks out of, and the gate.
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
mod search;
mod select;
mod store_damage;
mod store_index;
mod store_meaning;
mod store_refused;
mod store_settings;
mod stored;
mod tool;
