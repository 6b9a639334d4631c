//! Recall in every store: through the typed integration, and its search by itself.

mod log;
mod meaning;
pub(crate) mod others;
pub(crate) mod same;
mod turns;
mod world;
