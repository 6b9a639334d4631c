//! The guide to encryption.

#[doc = include_str!("../docs/protection.md")]
pub mod protection {}

#[doc = include_str!("../docs/keys.md")]
pub mod keys {}
