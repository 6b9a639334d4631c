//! A request: one line of input.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Deserializer, error::Category, value::RawValue};
use tower_chat_history::{Message, store::MessageError};

/// A list of messages and its token budget.
pub(crate) struct Request {
    pub(crate) messages: Vec<Message>,
    pub(crate) max_tokens: u64,
}

impl Request {
    /// Parses a line. Returns its id, if it has one, in addition to the request or the error.
    pub(crate) fn read(json: &[u8]) -> (Option<&RawValue>, Result<Self, RequestError>) {
        let (line, result) = Line::read(json);
        (line.id, result.and_then(|()| Self::of(&line)))
    }

    fn of(line: &Line<'_>) -> Result<Self, RequestError> {
        let list = line.messages.ok_or(RequestError::Messages)?;
        let list: Vec<&RawValue> = serde_json::from_str(list.get()).map_err(|_| RequestError::Messages)?;

        let max_tokens = line.max_tokens.ok_or(RequestError::MaxTokens)?;
        let max_tokens = serde_json::from_str(max_tokens.get()).map_err(|_| RequestError::MaxTokens)?;

        let mut messages = Vec::with_capacity(list.len());
        for (position, json) in list.into_iter().enumerate() {
            let message = Message::from_json(json.get());
            messages.push(message.map_err(|source| RequestError::Message { position, source })?);
        }
        Ok(Self { messages, max_tokens })
    }
}

/// The fields of a line. If a field occurs twice, the last one is used.
#[derive(Default)]
struct Line<'a> {
    id: Option<&'a RawValue>,
    messages: Option<&'a RawValue>,
    max_tokens: Option<&'a RawValue>,
}

impl<'a> Line<'a> {
    /// Parses the fields. If the line is invalid, returns the fields before the error in addition to the error, so that
    /// the answer can have the id.
    fn read(json: &'a [u8]) -> (Self, Result<(), RequestError>) {
        let mut line = Self::default();
        let mut input = Deserializer::from_slice(json);
        let result = match input.deserialize_map(Fields(&mut line)).and_then(|()| input.end()) {
            Ok(()) => Ok(()),
            Err(error) if error.classify() == Category::Data => Err(RequestError::NotObject),
            Err(error) => Err(RequestError::Syntax { column: error.column() }),
        };
        (line, result)
    }
}

struct Fields<'l, 'a>(&'l mut Line<'a>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key_seed(FieldName)? {
            match &*name {
                b"id" => self.0.id = Some(map.next_value()?),
                b"messages" => self.0.messages = Some(map.next_value()?),
                b"max_tokens" => self.0.max_tokens = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// A field name as bytes: other fields are ignored, even if their names are not valid Unicode.
struct FieldName;

impl<'a> DeserializeSeed<'a> for FieldName {
    type Value = Cow<'a, [u8]>;

    fn deserialize<D: serde::Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'a> Visitor<'a> for FieldName {
    type Value = Cow<'a, [u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_bytes<E>(self, name: &'a [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_vec()))
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
