//! The contract of [`Dialect`] as functions to call from a dialect's tests.
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
#[cfg(test)]
mod tests;

pub mod changed;
pub mod reading;
pub mod translated;
pub mod written;

use tower_chat_history_core::{Dialect, Message, Part};

/// A dialect, and elements of it.
///
/// Add elements of every kind: the user's text, replies with text, calls (of every [space]) and reasoning, and results,
/// also several in one element if the dialect allows that.
///
/// [space]: tower_chat_history_core::Space
#[derive(Clone, Debug)]
pub struct Samples {
    dialect: &'static dyn Dialect,
    elements: Vec<String>,
    unknown: Vec<String>,
}

impl Samples {
    /// Creates samples of this dialect without elements.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect) -> Self {
        Self { dialect, elements: Vec::new(), unknown: Vec::new() }
    }

    /// Adds the JSON of an element of a known kind.
    #[must_use]
    pub fn element(mut self, json: impl Into<String>) -> Self {
        self.elements.push(json.into());
        self
    }

    /// Adds the JSON of an element of a kind that the dialect does not know.
    #[must_use]
    pub fn unknown(mut self, json: impl Into<String>) -> Self {
        self.unknown.push(json.into());
        self
    }

    /// Returns all samples.
    fn all(&self) -> impl Iterator<Item = &String> {
        self.elements.iter().chain(&self.unknown)
    }

    /// Reads an element that must be read.
    #[track_caller]
    fn read(&self, json: &str) -> Message {
        read(self.dialect, json)
    }

    /// Returns the samples, and the damaged elements that the dialect reads.
    fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = self.all().map(|sample| self.read(sample)).collect();
        for sample in self.all() {
            let damaged = hostile::damaged(sample).into_iter();
            messages.extend(damaged.filter_map(|json| Message::in_dialect(self.dialect, json).ok()));
        }
        messages
    }
}

/// Reads an element that must be read.
#[track_caller]
fn read(dialect: &'static dyn Dialect, json: &str) -> Message {
    Message::in_dialect(dialect, json).unwrap_or_else(|error| panic!("the element is not read ({error}): {json}"))
}

/// Returns the parts of a message.
fn parts(message: &Message) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    message.parts(&mut |part| parts.push(part));
    parts
}

/// Returns the parts that are neither results nor a part of them. Results may contain media and data of other kinds.
fn said(message: &Message) -> Vec<Part<'_>> {
    let mut said = parts(message);
    said.retain(|part| !matches!(part, Part::Result { .. } | Part::Media { .. } | Part::Other { .. }));
    said
}

/// Returns the texts that a message says. Texts of white space do not count.
fn texts(message: &Message) -> Vec<String> {
    let mut texts = Vec::new();
    message.parts(&mut |part| match part {
        Part::Text(text) if !text.trim().is_empty() => texts.push(text.into_owned()),
        _ => {}
    });
    texts
}
