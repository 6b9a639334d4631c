//! A message's content and its parts. All readers of content see it as it is read here.

use std::{borrow::Cow, fmt};

use serde_json::{Value, value::RawValue};

use super::{
    ChatCompletions,
    index::sendable_content,
    media_part::{MediaPart, media},
};
use crate::{
    json::{self, Object},
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

    /// Returns this reply with a content that servers accept. Another message stays.
    pub(super) fn with_sendable_content(&self) -> Result<Self, MessageError> {
        let place = self.index().chat.content.as_ref().filter(|_| self.is_reply());
        match place.map(|place| sendable_content(&self.json()[place.range.clone()])) {
            Some(Cow::Owned(content)) => self.with_content_json(&content),
            _ => Ok(self.clone()),
        }
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

/// A part of a content.
pub(super) enum ContentPart<'a> {
    /// A part of type `text`.
    Text(Cow<'a, str>),
    /// The text with which the model refused.
    Refusal(Cow<'a, str>),
    /// An image, audio, a video or a file.
    Media(MediaPart<'a>),
    /// Any other part, with its text if it has one. The type is empty if it is not known.
    Other { kind: Cow<'a, str>, text: Option<Cow<'a, str>> },
}

impl<'a> ContentPart<'a> {
    /// Reads a part. If `type`, `detail`, `text` or `refusal` is neither a string nor null, the part stands for itself:
    /// it has no type and no text that are known.
    pub(super) fn read(json: &'a str) -> Self {
        // Some providers allow a bare string, which is a text.
        Self::of_object(json).unwrap_or_else(|| Self::Other { kind: Cow::Borrowed(""), text: json::text(json) })
    }

    fn of_object(json: &'a str) -> Option<Self> {
        let members = Object::read(json)?;
        let kind = members.text_if_any("type").ok()?.unwrap_or_default();
        let detail = members.text_if_any("detail").ok()?;
        let text = members.text_if_any("text").ok()?;
        let refusal = members.text_if_any("refusal").ok()?;
        if let Some(media) = media(&kind) {
            return Some(Self::Media(MediaPart { media, kind, detail, text, members }));
        }
        Some(match (text, refusal) {
            (Some(text), _) if kind == "text" => Self::Text(text),
            (None, Some(refusal)) => Self::Refusal(refusal),
            (text, _) => Self::Other { kind, text },
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::message::{ChatCompletions, Dialect, LeftOut, Media, Message, Part, Source, StatedContent, Statement};

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

    fn message(part: &str) -> Message {
        Message::from_json(format!(r#"{{"role":"user","content":[{part}]}}"#)).unwrap()
    }

    fn parts(message: &Message) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        message.parts(&mut |part| parts.push(part));
        parts
    }

    /// Returns the stated contents of a message, and the number of parts of other kinds that are left out.
    fn stated(message: &Message) -> (Vec<StatedContent<'_>>, usize) {
        let mut left_out = LeftOut::default();
        let content = match ChatCompletions.statements(message, &mut left_out).pop() {
            Some(Statement::User(content)) => content,
            _ => Vec::new(),
        };
        (content, left_out.other)
    }

    #[test]
    fn a_part_with_a_field_of_another_type_stands_for_itself() {
        for json in [
            r#"{"type":1,"text":"t"}"#,
            r#"{"type":"text","text":1}"#,
            r#"{"type":"text","text":"t","refusal":1}"#,
            r#"{"type":"text","text":"t","detail":{}}"#,
            r#"{"type":"image_url","detail":1,"image_url":{"url":"data:,"}}"#,
        ] {
            let message = message(json);
            assert_eq!(parts(&message), [Part::Other { kind: "".into(), text: json.into() }], "{json}");
            assert_eq!((message.text(), message.part_kinds().has_media), ("".into(), false), "{json}");
            assert_eq!(stated(&message), (Vec::new(), 1), "{json}");
        }
    }

    #[test]
    fn a_field_that_is_null_is_none() {
        let message = message(r#"{"type":"text","text":"t","refusal":null,"detail":null}"#);
        assert_eq!(parts(&message), [Part::Text("t".into())]);
        assert_eq!(message.text(), "t");
        assert_eq!(stated(&message), (vec![StatedContent::Text("t".into())], 0));
    }

    #[test]
    fn texts_of_other_parts_are_stated_but_are_not_said() {
        for (json, expected) in [
            (r#""t""#, Part::Other { kind: "".into(), text: "t".into() }),
            (r#"{"text":"t"}"#, Part::Other { kind: "".into(), text: "t".into() }),
            (r#"{"type":"input_text","text":"t"}"#, Part::Other { kind: "input_text".into(), text: "t".into() }),
            (r#"{"type":"refusal","refusal":"t"}"#, Part::Refusal("t".into())),
        ] {
            let message = message(json);
            assert_eq!(parts(&message), [expected], "{json}");
            assert_eq!(message.text(), "", "{json}");
            assert_eq!(stated(&message), (vec![StatedContent::Text("t".into())], 0), "{json}");
        }
    }

    #[test]
    fn the_detail_of_the_url_counts_before_that_of_the_part() {
        for (json, media) in [
            (r#"{"type":"image_url","image_url":{"url":"https://x.test","detail":"low"}}"#, Media::ImageLowDetail),
            (
                r#"{"type":"image_url","detail":"high","image_url":{"url":"https://x.test","detail":"low"}}"#,
                Media::ImageLowDetail,
            ),
            (
                r#"{"type":"image_url","detail":"low","image_url":{"url":"https://x.test","detail":"high"}}"#,
                Media::Image,
            ),
            (r#"{"type":"image_url","detail":"low","image_url":{"url":"https://x.test"}}"#, Media::ImageLowDetail),
            (
                r#"{"type":"image_url","detail":"low","image_url":{"url":"https://x.test","detail":1}}"#,
                Media::ImageLowDetail,
            ),
            (r#"{"type":"image_url","detail":"low","image_url":"https://x.test"}"#, Media::ImageLowDetail),
            (r#"{"type":"image_url","image_url":"https://x.test"}"#, Media::Image),
        ] {
            let message = message(json);
            let part = Part::Media { media, kind: "image_url".into(), words: None, data: None };
            assert_eq!(parts(&message), [part], "{json}");
            let source = Source::Url("https://x.test".into());
            assert_eq!(stated(&message).0, [StatedContent::Media { media, source, name: None }], "{json}");
        }
    }
}
