//! Images, audio, videos and files in the content of a chat message.

use std::borrow::Cow;

use super::content::ContentPart;
use crate::{
    json::{self, Object},
    message::dialect::{
        Media, Part, placeholder_part,
        statement::{Source, StatedContent, is_data, of_url},
    },
};

/// The fields that can contain data, in the parts of OpenAI and of compatible providers.
const FIELDS: [&str; 5] = ["image_url", "input_audio", "audio_url", "video_url", "file"];

/// A part that is not text. The field with its data, which can be large, is read only when it is needed.
pub(super) struct MediaPart<'a> {
    /// The kind of data. It does not say whether an image has low detail.
    pub(super) media: Media,
    /// The type as the format names it.
    pub(super) kind: Cow<'a, str>,
    /// The part's own detail. OpenAI defines it in the field with the data.
    pub(super) detail: Option<Cow<'a, str>>,
    /// The part's text. OpenAI defines none.
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) members: Object<'a>,
}

/// The members of the field with the data.
#[derive(Default)]
struct Fields<'a> {
    url: Option<Cow<'a, str>>,
    detail: Option<Cow<'a, str>>,
    data: Option<Cow<'a, str>>,
    format: Option<Cow<'a, str>>,
    file_data: Option<Cow<'a, str>>,
    filename: Option<Cow<'a, str>>,
}

/// Returns the kind of data in a part of this type, or `None` if it is no such part.
pub(super) fn media(kind: &str) -> Option<Media> {
    match () {
        () if kind.contains("image") => Some(Media::Image),
        () if kind.contains("audio") => Some(Media::Audio),
        () if kind.contains("video") => Some(Media::Video),
        () if kind.contains("file") || kind.contains("document") => Some(Media::File),
        () => None,
    }
}

/// Returns the part of a text in place of this part, if it is a medium for which `leaves_out` returns `true`. A part
/// that also has a text of its own stays.
pub(super) fn left_out(json: &str, leaves_out: &mut dyn FnMut(Media, Option<&str>) -> bool) -> Option<String> {
    let ContentPart::Media(part) = ContentPart::read(json) else { return None };
    if part.text.is_some() {
        return None;
    }

    let Part::Media { media, data, .. } = part.into_part() else { return None };
    if !leaves_out(media, data.as_deref()) {
        return None;
    }
    Some(placeholder_part("text", media, &Object::read(json)?))
}

impl<'a> MediaPart<'a> {
    /// Returns the part as readers of all dialects see it. It has no data if there is only a reference to them.
    pub(super) fn into_part(self) -> Part<'a> {
        let fields = self.fields();
        let media = self.media_with(&fields);
        let data = fields.data.or(fields.file_data).or_else(|| fields.url.filter(|url| is_data(url)));
        Part::Media { media, kind: self.kind, words: None, data }
    }

    /// Returns the part for a translation. If it has no source, its text is stated.
    pub(super) fn into_stated(self) -> StatedContent<'a> {
        let fields = self.fields();
        let media = self.media_with(&fields);
        let source = match (fields.data, fields.format) {
            (Some(base64), Some(format)) if media == Media::Audio => {
                Source::Data { kind: Cow::Owned(format!("audio/{format}")), base64 }
            }
            _ => fields.file_data.or(fields.url).map_or(Source::Unavailable, of_url),
        };
        match self.text {
            Some(text) if source == Source::Unavailable => StatedContent::Text(text),
            _ => StatedContent::Media { media, source, name: fields.filename },
        }
    }

    /// Reads the field with the data. Its name is that of the type. Some providers allow the URL in place of an object.
    fn fields(&self) -> Fields<'a> {
        let named = self.members.get(&self.kind);
        let Some(json) = named.or_else(|| FIELDS.iter().find_map(|name| self.members.get(name))) else {
            return Fields::default();
        };
        if let Some(url) = json::text(json) {
            return Fields { url: Some(url), ..Fields::default() };
        }
        let Some(object) = Object::read(json) else { return Fields::default() };
        Fields {
            url: object.text("url"),
            detail: object.text("detail"),
            data: object.text("data"),
            format: object.text("format"),
            file_data: object.text("file_data"),
            filename: object.text("filename"),
        }
    }

    /// Returns the kind of data. The detail in the field with the data counts before the part's own.
    fn media_with(&self, fields: &Fields<'a>) -> Media {
        let is_low = fields.detail.as_ref().or(self.detail.as_ref()).is_some_and(|detail| detail == "low");
        if is_low && self.media == Media::Image { Media::ImageLowDetail } else { self.media }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(json: &str) -> MediaPart<'_> {
        match ContentPart::read(json) {
            ContentPart::Media(part) => part,
            _ => panic!("no media: {json}"),
        }
    }

    fn inline<'a>(kind: &'a str, base64: &'a str) -> Source<'a> {
        Source::Data { kind: kind.into(), base64: base64.into() }
    }

    #[test]
    fn the_data_of_each_kind_of_part_is_found() {
        let (png, pdf) = ("data:image/png;base64,AA", "data:application/pdf;base64,AA");
        let (mp4, wav) = ("data:video/mp4;base64,AA", "data:audio/wav;base64,AA");
        for (json, data, source) in [
            (
                r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA","detail":"low"}}"#,
                png,
                inline("image/png", "AA"),
            ),
            (r#"{"type":"image_url","image_url":"data:image/png;base64,AA"}"#, png, inline("image/png", "AA")),
            (r#"{"type":"input_image","image_url":"data:image/png;base64,AA"}"#, png, inline("image/png", "AA")),
            (
                r#"{"type":"image_url","image_url":"DATA:image/png;base64,AA"}"#,
                "DATA:image/png;base64,AA",
                inline("image/png", "AA"),
            ),
            (r#"{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}"#, "AA", inline("audio/wav", "AA")),
            (r#"{"type":"input_audio","input_audio":{"data":"AA"}}"#, "AA", Source::Unavailable),
            (
                r#"{"type":"file","file":{"filename":"f","file_data":"data:application/pdf;base64,AA"}}"#,
                pdf,
                inline("application/pdf", "AA"),
            ),
            (r#"{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AA"}}"#, mp4, inline("video/mp4", "AA")),
            (r#"{"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,AA"}}"#, wav, inline("audio/wav", "AA")),
            (
                r#"{"type":"video_url","image_url":"https://x.test","video_url":"data:video/mp4;base64,AA"}"#,
                mp4,
                inline("video/mp4", "AA"),
            ),
        ] {
            assert!(matches!(part(json).into_part(), Part::Media { data: Some(found), .. } if found == data), "{json}");
            let stated = part(json).into_stated();
            assert!(matches!(stated, StatedContent::Media { source: found, .. } if found == source), "{json}");
        }
    }

    #[test]
    fn a_reference_is_no_data() {
        let url = || Source::Url("https://x.test/i.png".into());
        for (json, source) in [
            (r#"{"type":"image_url","image_url":{"url":"https://x.test/i.png"}}"#, url()),
            (r#"{"type":"image_url","image_url":"https://x.test/i.png"}"#, url()),
            (r#"{"type":"file","file":{"file_id":"f"}}"#, Source::Unavailable),
            (r#"{"type":"file","file":[1]}"#, Source::Unavailable),
            (r#"{"type":"image_url","image_url":7}"#, Source::Unavailable),
            (r#"{"type":"image_url"}"#, Source::Unavailable),
        ] {
            assert!(matches!(part(json).into_part(), Part::Media { data: None, .. }), "{json}");
            let stated = part(json).into_stated();
            assert!(matches!(stated, StatedContent::Media { source: found, .. } if found == source), "{json}");
        }
    }

    #[test]
    fn a_file_is_stated_with_its_name() {
        let stated = part(r#"{"type":"file","file":{"filename":"f.pdf","file_id":"f"}}"#).into_stated();
        let name = Some("f.pdf".into());
        assert_eq!(stated, StatedContent::Media { media: Media::File, source: Source::Unavailable, name });
    }

    #[test]
    fn the_text_of_a_part_without_a_source_is_stated() {
        let stated = part(r#"{"type":"file_excerpt","text":"t"}"#).into_stated();
        assert_eq!(stated, StatedContent::Text("t".into()));
    }
}
