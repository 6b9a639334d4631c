//! The data of an image, audio or a file that a content part contains.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lossy::Lossy;

/// The fields that can contain data, in the parts of OpenAI and of compatible providers.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    input_audio: Option<&'a RawValue>,
    #[serde(borrow)]
    audio_url: Option<&'a RawValue>,
    #[serde(borrow)]
    video_url: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    url: Option<Lossy<'a>>,
    #[serde(borrow)]
    data: Option<Lossy<'a>>,
    #[serde(borrow)]
    file_data: Option<Lossy<'a>>,
}

/// Returns the data: base64, or a URL that begins with `data:`. Returns `None` if the part has only a reference to it.
pub(super) fn data(json: &str) -> Option<Cow<'_, str>> {
    let Fields { image_url, input_audio, audio_url, video_url, file } = serde_json::from_str(json).ok()?;
    let source = [image_url, input_audio, audio_url, video_url, file].into_iter().flatten().next()?.get();
    let is_data = |url: &Lossy<'_>| url.0.starts_with("data:");
    if source.starts_with('"') {
        return serde_json::from_str::<Lossy<'_>>(source).ok().filter(is_data).map(|url| url.0);
    }
    let Source { url, data, file_data } = serde_json::from_str(source).ok()?;
    data.or(file_data).or_else(|| url.filter(is_data)).map(|data| data.0)
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
