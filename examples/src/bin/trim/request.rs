//! A request: one line of input.

use std::fmt;

use serde_json::value::RawValue;
use tower_chat_history::{Message, store::MessageError};

use super::line::Line;

/// A list of messages and its token budget.
pub(crate) struct Request {
    pub(crate) messages: Vec<Message>,
    pub(crate) max_tokens: u64,
}

impl Request {
    /// Parses a line. Returns its id, if it has one, in addition to the request or the error.
    pub(crate) fn read(json: &[u8]) -> (Option<&RawValue>, Result<Self, RequestError>) {
        let (line, read) = Line::read(json);
        (line.id, read.and_then(|()| Self::of(&line)))
    }

    fn of(line: &Line<'_>) -> Result<Self, RequestError> {
        let messages = line.messages.ok_or(RequestError::Messages)?;
        let messages: Vec<&RawValue> = serde_json::from_str(messages.get()).map_err(|_| RequestError::Messages)?;
        let message = |(position, json): (usize, &RawValue)| {
            Message::from_json(json.get()).map_err(|source| RequestError::Message { position, source })
        };
        let max_tokens = line.max_tokens.ok_or(RequestError::MaxTokens)?;
        let max_tokens = serde_json::from_str(max_tokens.get()).map_err(|_| RequestError::MaxTokens)?;
        Ok(Self { messages: messages.into_iter().enumerate().map(message).collect::<Result<_, _>>()?, max_tokens })
    }
}

/// An error in a line. Its text never quotes the line.
#[derive(Debug)]
pub(crate) enum RequestError {
    Syntax { column: usize },
    NotObject,
    Messages,
    Message { position: usize, source: MessageError },
    MaxTokens,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { column } => write!(f, "invalid JSON at column {column}"),
            Self::NotObject => f.write_str("the line is not a JSON object"),
            Self::Messages => f.write_str("`messages` is missing or not an array"),
            Self::Message { position, source } => write!(f, "messages[{position}]: {source}"),
            Self::MaxTokens => write!(f, "`max_tokens` is missing or not an integer from 0 to {}", u64::MAX),
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Message { source, .. } => Some(source),
            Self::Syntax { .. } | Self::NotObject | Self::Messages | Self::MaxTokens => None,
        }
    }
}
