//! Lists of messages that are counted, trimmed and repaired by hand.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod counters;
mod responses_tokens;
mod responses_view;
mod signing;
mod trim;
