//! The guide to encryption.

#[doc = include_str!("../../docs/encryption/protection.md")]
pub mod protection {}

#[doc = include_str!("../../docs/encryption/keys.md")]
pub mod keys {}
