//! Lists of messages that are counted, trimmed and repaired by hand.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod counters;
mod reasoning;
mod responses_tokens;
mod responses_view;
mod server_tools;
mod signing;
mod trim;
