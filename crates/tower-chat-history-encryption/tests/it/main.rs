//! Tests of the encrypted store.

mod changed;
mod conformance;
mod destroyed;
mod labels;
mod parallel;
mod plaintext;
mod providers;
mod sealed_parts;
mod support;
mod vaults;
