//! Recall around a turn: the place of the recalled messages, their budget, failures, repeated calls and preparations.

mod adapters;
mod budget;
mod failures;
mod others;
mod place;
mod prepare;
mod properties;
mod repeated;
mod room;
mod skipped;
mod support;
