//! The data of an image, audio or a file that a content part contains.

use std::borrow::Cow;

use crate::{lossy, message::dialect::members::Members};

/// The fields that can contain data, in the parts of OpenAI and of compatible providers.
const FIELDS: [&str; 5] = ["image_url", "input_audio", "audio_url", "video_url", "file"];

/// Returns the data: base64, or a URL that begins with `data:`. Returns `None` if the part has only a reference to it.
pub(super) fn data(part: &str) -> Option<Cow<'_, str>> {
    let part = Members::read(part).ok()?;
    let source = FIELDS.iter().find_map(|field| part.get(field))?;
    let is_data = |url: &Cow<'_, str>| url.starts_with("data:");
    if let Some(url) = lossy::text(source) {
        return Some(url).filter(is_data);
    }
    let source = Members::read(source).ok()?;
    let data = source.text("data").or_else(|| source.text("file_data"));
    data.or_else(|| source.text("url").filter(is_data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_each_kind_of_part_is_found() {
        for (json, expected) in [
            (
                r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"low"}}"#,
                Some("data:image/png;base64,AA"),
            ),
            (r#"{"type":"image_url","image_url":"data:image/png;base64,AA"}"#, Some("data:image/png;base64,AA")),
            (r#"{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}"#, Some("AA")),
            (
                r#"{"type":"file","file":{"filename":"f","file_data":"data:application/pdf;base64,AA"}}"#,
                Some("data:application/pdf;base64,AA"),
            ),
            (
                r#"{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AA"}}"#,
                Some("data:video/mp4;base64,AA"),
            ),
            (
                r#"{"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,AA"}}"#,
                Some("data:audio/wav;base64,AA"),
            ),
            (r#"{"type":"image_url","image_url":{"url":"https://example.com/i.png"}}"#, None),
            (r#"{"type":"image_url","image_url":"https://example.com/i.png"}"#, None),
            (r#"{"type":"file","file":{"file_id":"f"}}"#, None),
            (r#"{"type":"file","file":[1]}"#, None),
            (r#"{"type":"image_url","image_url":7}"#, None),
            (r#"{"type":"text","text":"data:"}"#, None),
            (r#"["data:"]"#, None),
        ] {
            assert_eq!(data(json).as_deref(), expected, "{json}");
        }
    }
}
