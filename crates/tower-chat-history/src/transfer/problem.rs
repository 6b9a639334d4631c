//! The errors of readers.

use std::io;

/// The error of a reader of another format. It never quotes the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// A conversation cannot be read. The reader continues with the next one.
    #[error("record {record}: {problem}")]
    Conversation {
        /// The number of the line or record, counted from 1. In a database, it is the number of the row.
        record: u64,
        /// The name of the conversation, if it is known.
        name: Option<String>,
        /// The problem.
        problem: Problem,
    },
    /// The input cannot be read. The reader ends.
    #[error("the input could not be read: {0}")]
    Input(#[from] io::Error),
    /// The database cannot be read. The reader ends.
    #[cfg(feature = "transfer-sqlite")]
    #[error("the database could not be read: {0}")]
    Database(#[from] rusqlite::Error),
}

impl ForeignError {
    pub(crate) const fn conversation(record: u64, name: Option<String>, problem: Problem) -> Self {
        Self::Conversation { record, name, problem }
    }
}

/// The reason why a conversation of another format cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The text is not JSON.
    #[error("it is not valid JSON (column {column})")]
    Json {
        /// The column, in bytes, counted from 1.
        column: usize,
    },
    /// The record has more bytes than the reader allows.
    #[error("it has more than {limit} bytes (write one conversation in each line)")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// The text is not UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The record does not have the fields of the format.
    #[error("it does not have the form of this format: {0}")]
    Form(&'static str),
    /// A message is not valid.
    #[error("message {0} is not a valid message")]
    Message(usize),
}
