//! Lists of messages, trimmed by hand.
#![allow(clippy::unwrap_used)] // Tests may unwrap.

mod trim;
