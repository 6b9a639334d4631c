//! Export and import.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod damaged;
mod erasing;
mod expiry;
mod foreign;
mod newest;
mod repeated;
mod round_trip;
mod support;
