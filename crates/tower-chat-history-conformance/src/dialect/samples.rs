//! The elements with which a dialect is tested.

use tower_chat_history_core::{Dialect, Message, Part};

use super::hostile;

/// A dialect, and elements of it.
///
/// Add elements of every kind: the user's text, replies with text, calls (of every [space]) and reasoning, and results,
/// also several in one element if the dialect allows that.
///
/// [space]: tower_chat_history_core::Space
#[derive(Clone, Debug)]
pub struct Samples {
    pub(super) dialect: &'static dyn Dialect,
    pub(super) elements: Vec<String>,
    pub(super) unknown: Vec<String>,
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
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.elements.iter().chain(&self.unknown)
    }

    /// Reads an element that must be read.
    #[track_caller]
    pub(super) fn read(&self, json: &str) -> Message {
        read(self.dialect, json)
    }

    /// Returns the samples, and the damaged elements that the dialect reads.
    pub(super) fn messages(&self) -> Vec<Message> {
        let damaged = self.all().flat_map(|sample| hostile::damaged(sample));
        let damaged = damaged.filter_map(|json| Message::in_dialect(self.dialect, json).ok());
        self.all().map(|sample| self.read(sample)).chain(damaged).collect()
    }
}

/// Reads an element that must be read.
#[track_caller]
pub(super) fn read(dialect: &'static dyn Dialect, json: &str) -> Message {
    Message::in_dialect(dialect, json).unwrap_or_else(|error| panic!("the element is not read ({error}): {json}"))
}

/// Returns the parts of a message.
pub(super) fn parts(message: &Message) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    message.parts(&mut |part| parts.push(part));
    parts
}

/// Returns the parts that are neither results nor a part of them. Results may contain media and data of other kinds.
pub(super) fn said(message: &Message) -> Vec<Part<'_>> {
    let is_said = |part: &Part<'_>| !matches!(part, Part::Result { .. } | Part::Media { .. } | Part::Other { .. });
    parts(message).into_iter().filter(is_said).collect()
}

/// Returns the texts that a message says. Texts of white space do not count.
pub(super) fn texts(message: &Message) -> Vec<String> {
    let mut texts = Vec::new();
    message.parts(&mut |part| match part {
        Part::Text(text) if !text.trim().is_empty() => texts.push(text.into_owned()),
        _ => {}
    });
    texts
}
