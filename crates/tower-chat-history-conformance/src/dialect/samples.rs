//! The elements with which a dialect is tested.

use tower_chat_history_core::{Dialect, Message, Part};

use super::{hostile, report::fail};
use crate::clause;

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
        Message::in_dialect(self.dialect, json)
            .unwrap_or_else(|error| fail(&clause::READS_ITS_ELEMENTS, json, "an element", &error.to_string()))
    }

    /// Returns the samples, and the damaged elements that the dialect reads.
    pub(super) fn messages(&self) -> Vec<Message> {
        let damaged = self.all().flat_map(|sample| hostile::damaged(sample));
        let damaged = damaged.filter_map(|json| Message::in_dialect(self.dialect, json).ok());
        self.all().map(|sample| self.read(sample)).chain(damaged).collect()
    }
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

/// Returns the text that a message says.
pub(super) fn text(message: &Message) -> String {
    let text = |part| if let Part::Text(text) = part { Some(text) } else { None };
    parts(message).into_iter().filter_map(text).collect()
}
