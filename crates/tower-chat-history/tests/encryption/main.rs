//! Tests of the encrypted store.
#![allow(clippy::unwrap_used)] // A failed unwrap fails the test.

mod changed;
mod destroyed;
mod forks;
mod labels;
mod look_ups;
mod master_keys;
mod new_keys;
mod parallel;
mod plaintext;
mod providers;
mod sealed_parts;
mod support;
mod vaults;
mod wrong_vault;
