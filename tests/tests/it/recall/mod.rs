//! Recall in every store: through the typed integration, and its index and search by themselves.

mod log;
mod meaning;
pub(crate) mod others;
mod processes;
pub(crate) mod same;
mod segment;
mod turns;
mod world;
