//! The tokens of the parts of a content. A part that is not a text costs a fixed number of tokens, because its size in
//! bytes is no measure of them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::TokenCounter;

/// The tokens of an image at low detail. Source: OpenAI's guide on images, for GPT-4o.
pub const IMAGE_LOW_DETAIL: u32 = 85;

/// The tokens of an image at high detail. This is the maximum: 85, and 170 for each of 8 tiles. Source: OpenAI's guide
/// on images, for GPT-4o.
pub const IMAGE_HIGH_DETAIL: u32 = 1_445;

/// The tokens of audio: one minute, at ten tokens per second.
pub const AUDIO: u32 = 600;

/// The tokens of a file, a document or a video: about one page, as text and as an image.
pub const FILE: u32 = 2_000;

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(default)]
    r#type: String,
    text: Option<String>,
    refusal: Option<String>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    detail: Option<String>,
}

#[derive(Deserialize)]
struct ImageUrl {
    detail: Option<String>,
}

pub(super) fn part<C: TokenCounter + ?Sized>(counter: &C, json: &str) -> u32 {
    let Ok(part) = serde_json::from_str::<Part<'_>>(json) else {
        // Some providers allow a bare string, which is a text. Anything else is counted as JSON.
        return counter.count_text(serde_json::from_str::<String>(json).as_deref().unwrap_or(json));
    };
    part.fixed_cost().unwrap_or_else(|| counter.count_text(part.text.or(part.refusal).as_deref().unwrap_or(json)))
}

/// Returns the tokens of the part if they do not depend on a text.
pub(super) fn fixed_cost(json: &str) -> Option<u32> {
    serde_json::from_str::<Part<'_>>(json).ok()?.fixed_cost()
}

impl Part<'_> {
    fn fixed_cost(&self) -> Option<u32> {
        let is = |kind: &str| self.r#type.contains(kind);
        if is("image") {
            let nested = || serde_json::from_str::<ImageUrl>(self.image_url?.get()).ok()?.detail;
            return Some(match self.detail.clone().or_else(nested).as_deref() {
                Some("low") => IMAGE_LOW_DETAIL,
                _ => IMAGE_HIGH_DETAIL,
            });
        }
        if is("audio") {
            return Some(AUDIO);
        }
        (is("file") || is("document") || is("video")).then_some(FILE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::ByteEstimate;

    fn tokens(json: &str) -> u32 {
        part(&ByteEstimate::new(), json)
    }

    #[test]
    fn the_cost_of_images_depends_on_their_detail_and_not_on_their_bytes() {
        let data = "A".repeat(10_000);
        let image = |detail: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"data:{data}"{detail}}}}}"#);
        assert_eq!(tokens(&image(r#","detail":"low""#)), IMAGE_LOW_DETAIL);
        assert_eq!(tokens(&image(r#","detail":"high""#)), IMAGE_HIGH_DETAIL);
        assert_eq!(tokens(&image(r#","detail":"auto""#)), IMAGE_HIGH_DETAIL);
        assert_eq!(tokens(&image("")), IMAGE_HIGH_DETAIL);
        assert_eq!(tokens(r#"{"type":"input_image","image_url":"data:","detail":"low"}"#), IMAGE_LOW_DETAIL);
    }

    #[test]
    fn audio_files_and_videos_have_a_fixed_cost() {
        let data = "A".repeat(10_000);
        let with = |kind: &str| tokens(&format!(r#"{{"type":"{kind}","{kind}":{{"data":"{data}"}}}}"#));
        assert_eq!((with("input_audio"), with("file"), with("video_url")), (AUDIO, FILE, FILE));
    }

    #[test]
    fn other_parts_cost_their_text() {
        assert_eq!(tokens(r#"{"type":"text","text":"12345678","cache_control":{}}"#), 2);
        assert_eq!(tokens(r#"{"type":"refusal","refusal":"1234"}"#), 1);
        assert_eq!(tokens(r#""12345678""#), 2);
        let unknown = r#"{"type":"thing","of":[1,2,3]}"#;
        assert_eq!(tokens(unknown), ByteEstimate::new().count_text(unknown));
    }
}
