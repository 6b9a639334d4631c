//! The error for a text that is not a message.

/// The error for a JSON text that is not a message. It never quotes the text.
#[derive(Debug, thiserror::Error)]
#[error("invalid message: {reason} (line {line}, column {column})")]
pub struct MessageError {
    reason: &'static str,
    line: usize,
    column: usize,
}

impl MessageError {
    /// Creates the error for a JSON value that is not an element of a dialect. The reason is a constant of the dialect,
    /// never a part of the value.
    #[must_use]
    pub const fn new(reason: &'static str) -> Self {
        Self { reason, line: 1, column: 1 }
    }

    /// Creates the error for a text that is not the JSON that a dialect expects. It says where, and does not quote the
    /// text.
    // serde_json's own messages may quote the input, which is private.
    #[allow(clippy::needless_pass_by_value)]
    #[must_use]
    pub fn from_json(error: serde_json::Error) -> Self {
        use serde_json::error::Category::{Data, Eof, Io, Syntax};
        let reason = match error.classify() {
            Data => "a value has another type than the format requires",
            Eof => "the JSON ends too early",
            Syntax => "the JSON is malformed",
            // Only the limit on levels causes an error of this category.
            Io => "the JSON has more than 128 levels",
        };
        Self { reason, line: error.line(), column: error.column() }
    }
}
