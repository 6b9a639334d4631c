#![allow(clippy::unwrap_used)]
#[path = "it/switching/mod.rs"]
mod switching;
