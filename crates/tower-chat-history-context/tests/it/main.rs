//! Lists of messages, trimmed and repaired by hand.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod reasoning;
mod signing;
mod trim;
