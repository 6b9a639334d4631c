//! The contract of [`Dialect`](tower_chat_history_core::Dialect) as functions to call from a dialect's tests.
//!
//! Each function tests one rule of the contract. It takes [`Samples`], which are elements of the dialect, and panics if
//! the dialect breaks the rule for one of them. The panic shows the element. The rules also hold for damaged elements,
//! so the suite derives many of them from the samples: values of other types, missing and repeated fields, lone
//! surrogates, deep nesting.
//!
//! [`dialect_tests!`](crate::dialect_tests) creates a test for each function:
//!
//! ```
//! use tower_chat_history_conformance::{dialect::Samples, dialect_tests};
//! use tower_chat_history_core::ChatCompletions;
//! # macro_rules! dialect_tests { ($($ignored:tt)*) => {} }
//!
//! dialect_tests! {
//!     Samples::new(&ChatCompletions)
//!         .element(r#"{"role":"user","content":"What is new?"}"#)
//!         .element(r#"{"role":"assistant","content":"Nothing."}"#)
//!         .element(r#"{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}"#)
//!         .element(r#"{"role":"tool","tool_call_id":"x","content":"1"}"#)
//!         .unknown(r#"{"role":"critic","content":"No."}"#)
//! }
//! ```

mod hostile;
mod list;
mod samples;
#[cfg(test)]
mod tests;

pub mod changed;
pub mod reading;
pub mod translated;
pub mod written;

pub use self::samples::Samples;
