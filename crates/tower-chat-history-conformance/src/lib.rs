//! The conformance suites of `tower-chat-history`, the conversation memory for LLM services.
//!
//! Each contract is a list of functions to call from your own tests. A function tests one behavior and panics if it is
//! different. The panic quotes the sentence of the contract that is broken.
//!
//! | To test | Use |
//! | --- | --- |
//! | a store | [`store`] and [`conformance_tests!`] |
//! | a message format | [`dialect`] and [`dialect_tests!`] |
//! | what only your store has | [`shorthand`] |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Assertions are the purpose of this crate.
#![allow(clippy::expect_used)]

mod clause;

pub mod dialect;
pub mod shorthand;
pub mod store;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
