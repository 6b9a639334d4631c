//! A message's content.

use std::{borrow::Cow, fmt};

use serde_json::{Value, value::RawValue};

use super::{ChatCompletions, content_part::ContentPart};
use crate::{
    json,
    message::{Message, MessageError, dialect::index::ContentPlace},
};

impl Message {
    /// Returns the content of a message of [chat completions](ChatCompletions). It is decoded on each call.
    ///
    /// Messages of other dialects have no such field. For them, it is [`Content::None`]: use [`text`](Self::text) or
    /// [`parts`](Self::parts), which work in all dialects.
    #[inline]
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        match &self.index().chat.content {
            Some(ContentPlace { range, is_plain_text: true }) => {
                Content::Text(Cow::Borrowed(&self.json()[range.start + 1..range.end - 1]))
            }
            Some(ContentPlace { range, is_plain_text: false }) => Content::parse(&self.json()[range.clone()]),
            None => Content::None,
        }
    }

    /// Returns this message of [chat completions](ChatCompletions) with this text as its content. All other fields stay
    /// as they are written, also those that can contain text: refusals, reasoning, and the arguments of calls.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is of another [dialect](Self::dialect), or if its dialect is not known. Such a
    /// message has no content that could be replaced.
    pub fn with_text(&self, text: &str) -> Result<Self, MessageError> {
        self.with_content_json(&Value::from(text).to_string())
    }

    /// Returns this message of [chat completions](ChatCompletions) with these parts as its content, each given as the
    /// JSON of one part. All other fields stay as they are written.
    ///
    /// # Errors
    ///
    /// Returns an error if a part is not JSON, if the message is of another [dialect](Self::dialect), or if its dialect
    /// is not known.
    pub fn with_parts(&self, parts: &[impl AsRef<str>]) -> Result<Self, MessageError> {
        let parts: Result<Vec<&RawValue>, _> = parts.iter().map(|part| serde_json::from_str(part.as_ref())).collect();
        let parts = parts.map_err(MessageError::from_json)?;
        self.with_content_json(&serde_json::to_string(&parts).map_err(MessageError::from_json)?)
    }

    /// Replaces the content. `content` must be JSON.
    fn with_content_json(&self, content: &str) -> Result<Self, MessageError> {
        let dialect = self.dialect().filter(|dialect| dialect.name() == ChatCompletions::NAME);
        let dialect = dialect.ok_or(MessageError::new("it is no message of chat completions"))?;
        match &self.index().chat.content {
            Some(ContentPlace { range, .. }) => {
                let json = [&self.json()[..range.start], content, &self.json()[range.end..]].concat();
                Self::in_dialect(dialect, json)
            }
            None => self.with_field("content", content),
        }
    }
}

/// A message's `content`, by its shape.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Content<'a> {
    /// Absent or null.
    None,
    /// A string. A lone surrogate in it reads as U+FFFD.
    Text(Cow<'a, str>),
    /// An array, as the JSON of each part.
    Parts(Vec<&'a str>),
    /// Another JSON value, verbatim.
    Other(&'a str),
}

impl<'a> Content<'a> {
    /// Returns the text of an entry of [`Content::Parts`] if it is a part of type `text`.
    pub(crate) fn text_of_part(json: &'a str) -> Option<Cow<'a, str>> {
        match ContentPart::read(json) {
            ContentPart::Text(text) => Some(text),
            _ => None,
        }
    }

    fn parse(json: &'a str) -> Self {
        match json.as_bytes().first() {
            Some(b'"') => Content::Text(json::text(json).unwrap_or_default()),
            _ => json::entries(json).map_or(Content::Other(json), Content::Parts),
        }
    }
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Text(text) => write!(f, "Text({} bytes)", text.len()),
            Self::Parts(parts) => write!(f, "Parts({})", parts.len()),
            Self::Other(json) => write!(f, "Other({} bytes)", json.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_the_content_preserves_the_other_fields() {
        let json = r#"{ "x" : 1.50, "content" : [ 1 ], "role":"user","name":"n" }"#;
        let message = Message::from_json(json).unwrap();
        assert_eq!(message.with_text("a\"b").unwrap().json(), json.replace("[ 1 ]", r#""a\"b""#));
        let part = r#"{"type" : "text", "text":"t"}"#;
        assert_eq!(
            message.with_parts(&[part, part]).unwrap().json(),
            json.replace("[ 1 ]", &format!("[{part},{part}]"))
        );
        assert!(message.with_parts(&["{"]).is_err());
    }

    #[test]
    fn content_is_added_if_there_is_none() {
        let message = Message::from_json(r#"{"role":"assistant","x":1.0,"content":null}"#).unwrap();
        assert_eq!(message.with_text("t").unwrap().json(), r#"{"content":"t","role":"assistant","x":1.0}"#);
        let message = Message::from_json(r#"{"role":"assistant","x":1.0}"#).unwrap();
        assert_eq!(message.with_text("t").unwrap().json(), r#"{"content":"t","role":"assistant","x":1.0}"#);
    }
}
