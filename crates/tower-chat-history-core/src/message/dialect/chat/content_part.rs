//! A part of a chat message's content. All readers of content see it as it is read here.

use std::borrow::Cow;

use super::media_part::{MediaPart, media};
use crate::json::{self, Object};

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
