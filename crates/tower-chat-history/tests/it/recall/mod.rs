//! Recall around a turn: the place of the recalled messages, their budget, failures, repeated calls and preparations.

mod adapters;
mod budget;
mod failures;
#[cfg(feature = "recall")]
mod forgotten;
mod others;
mod place;
mod prepare;
mod properties;
mod repeated;
mod room;
mod skipped;
pub mod support;
