//! The reasoning of a reply.

/// A piece of reasoning in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thought {
    /// Reasoning with a text.
    Text(String),
    /// Reasoning that the provider encrypts.
    Redacted,
}

impl Thought {
    /// Returns the text; for redacted reasoning, it is empty.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Redacted => "",
        }
    }
}
