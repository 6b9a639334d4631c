//! Recall in every store: through the typed integration, and its index and search by themselves.

mod log;
mod meaning;
mod others;
mod processes;
mod same;
mod segment;
mod turns;
mod world;
