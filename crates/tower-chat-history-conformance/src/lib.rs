//! The conformance suites of `tower-chat-history`, the conversation memory for LLM services.
//!
//! Each suite is a list of functions to call from your own tests. A function tests one rule of the contract, and panics
//! if the store or the dialect breaks it.
//!
//! | To test | Use |
//! | --- | --- |
//! | a store | [`store`] and [`conformance_tests!`] |
//! | a message format | [`dialect`] and [`dialect_tests!`] |
//! | what only your store has | [`shorthand`] |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Assertions are the purpose of this crate.
#![allow(clippy::expect_used, clippy::unwrap_used)]

pub mod dialect;
pub mod shorthand;
pub mod store;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
