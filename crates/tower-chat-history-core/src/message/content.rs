//! A message's content.

use std::{borrow::Cow, fmt};

use serde_json::{Value, value::RawValue};

use super::{Message, MessageError, index, lossy};

impl Message {
    /// The content, decoded on each call.
    #[must_use]
    pub fn content(&self) -> Content<'_> {
        match &self.0.index.content {
            Some(range) => Content::parse(&self.json()[range.clone()]),
            None => Content::None,
        }
    }

    /// The text: the content itself, or its text parts joined without a separator; empty when there is none.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self.content() {
            Content::Text(text) => text,
            Content::Parts(parts) => parts.iter().filter_map(|part| index::part_text(part)).collect::<String>().into(),
            Content::None | Content::Other(_) => Cow::Borrowed(""),
        }
    }

    /// Returns the texts that [`text`](Self::text) joins: the content itself, or each of its text parts.
    #[must_use]
    pub fn texts(&self) -> Vec<Cow<'_, str>> {
        match self.content() {
            Content::Text(text) => vec![text],
            Content::Parts(parts) => parts.iter().filter_map(|part| index::part_text(part)).map(Cow::Owned).collect(),
            Content::None | Content::Other(_) => Vec::new(),
        }
    }

    /// This message with that text in place of its content. All other fields are kept as they are written.
    #[must_use]
    pub fn with_text(&self, text: &str) -> Self {
        self.with_content_json(&Value::from(text).to_string())
    }

    /// This message with these parts in place of its content, each of them the JSON of one part. All other fields are kept as
    /// they are written.
    ///
    /// # Errors
    ///
    /// When a part is no JSON.
    pub fn with_parts(&self, parts: &[impl AsRef<str>]) -> Result<Self, MessageError> {
        let parts: Result<Vec<&RawValue>, _> = parts.iter().map(|part| serde_json::from_str(part.as_ref())).collect();
        let parts = parts.map_err(MessageError::from_json)?;
        Ok(self.with_content_json(&serde_json::to_string(&parts).map_err(MessageError::from_json)?))
    }

    /// The content has to be JSON.
    fn with_content_json(&self, content: &str) -> Self {
        let changed = match &self.0.index.content {
            Some(range) => Self::from_json([&self.json()[..range.start], content, &self.json()[range.end..]].concat()),
            None => self.with_field("content", content),
        };
        // JSON in the place of JSON makes no other kind of thing of a message.
        changed.unwrap_or_else(|_| self.clone())
    }
}

/// A message's `content`, as far as its shape is known.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Content<'a> {
    /// Absent or null.
    None,
    /// A string. A lone surrogate in it reads as U+FFFD.
    Text(Cow<'a, str>),
    /// An array: the JSON of each part.
    Parts(Vec<&'a str>),
    /// Another JSON value, verbatim.
    Other(&'a str),
}

impl<'a> Content<'a> {
    fn parse(json: &'a str) -> Self {
        match json.as_bytes().first() {
            Some(b'"') => Content::Text(lossy::text(json).unwrap_or_default()),
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(parts) => Content::Parts(parts.into_iter().map(RawValue::get).collect()),
                Err(_) => Content::Other(json),
            },
            _ => Content::Other(json),
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
    fn another_content_leaves_the_other_fields_as_they_are_written() {
        let json = r#"{ "x" : 1.50, "content" : [ 1 ], "role":"user","name":"n" }"#;
        let message = Message::from_json(json).unwrap();
        assert_eq!(message.with_text("a\"b").json(), json.replace("[ 1 ]", r#""a\"b""#));
        let part = r#"{"type" : "text", "text":"t"}"#;
        assert_eq!(
            message.with_parts(&[part, part]).unwrap().json(),
            json.replace("[ 1 ]", &format!("[{part},{part}]"))
        );
        assert!(message.with_parts(&["{"]).is_err());
    }

    #[test]
    fn content_is_added_where_there_is_none() {
        let message = Message::from_json(r#"{"role":"assistant","x":1.0,"content":null}"#).unwrap();
        assert_eq!(message.with_text("t").json(), r#"{"content":"t","role":"assistant","x":1.0}"#);
        let message = Message::from_json(r#"{"role":"assistant","x":1.0}"#).unwrap();
        assert_eq!(message.with_text("t").json(), r#"{"content":"t","role":"assistant","x":1.0}"#);
    }
}
