//! The costs of the parts of a message that are not texts, and the sizes of images, audio and documents that a message
//! contains as base64.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The tokens that frame each message. Source: OpenAI's cookbook, "How to count tokens with tiktoken".
pub const PER_MESSAGE: u32 = 3;

/// The tokens of an image at low detail. Source: OpenAI's guide on images, for GPT-4o.
pub const IMAGE_LOW_DETAIL: u32 = 85;

/// The tokens of an image at high detail. This is the maximum: 85, and 170 for each of 8 tiles. Source: OpenAI's guide
/// on images, for GPT-4o.
pub const IMAGE_HIGH_DETAIL: u32 = 1_445;

/// The tokens of audio: one minute, at ten tokens per second.
pub const AUDIO: u32 = 600;

/// The tokens of a file, a document or a video: about one page, as text and as an image.
pub const FILE: u32 = 2_000;

/// The tokens that prime the reply of OpenAI's chat models. Source: OpenAI's cookbook, "How to count tokens with
/// tiktoken".
pub const REPLY_PRIMING: u32 = 3;

/// The tokens of the parts of a message that are not texts, in addition to their texts.
///
/// [`Costs::new`] has the costs of OpenAI's chat models. [`Estimate`](super::Estimate) has presets for other models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    pub(super) message: u32,
    pub(super) name: u32,
    pub(super) call: u32,
    pub(super) result: u32,
    pub(super) image: ImageCost,
    pub(super) low_detail: u32,
    pub(super) audio: MediaCost,
    pub(super) video: MediaCost,
    pub(super) document: DocumentCost,
    pub(super) sealed_bytes: u32,
    pub(super) reply_priming: u32,
    pub(super) tools_priming: u32,
}

/// The tokens of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageCost {
    /// The same number for every image.
    Fixed(u32),
    /// One token for each square of the image. If the message has the image itself, its header has the size in pixels.
    /// Otherwise the image has the largest number of tokens.
    Squares {
        /// The side of a square, in pixels.
        side: u32,
        /// The longest side of an image, in pixels. The provider makes larger images smaller.
        longest_side: u32,
        /// The largest number of tokens of an image.
        max_tokens: u32,
    },
    /// A number of tokens for each tile of the image, and for a small image as a whole. If the message has the image
    /// itself, its header has the size in pixels.
    Tiles {
        /// The side of a tile, in pixels.
        side: u32,
        /// The longest side of an image that is one tile, in pixels.
        small: u32,
        /// The longest side of an image, in pixels. The provider makes larger images smaller.
        longest_side: u32,
        /// The tokens of a tile.
        tokens: u32,
        /// The tokens of an image whose size is unknown.
        unknown: u32,
    },
}

/// The tokens of audio or video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaCost {
    /// The tokens if the message has only a reference to the data.
    pub(crate) unknown: u32,
    /// The bytes per token if the message has the data itself, or `None` if the data has the same number of tokens as
    /// a reference.
    pub(crate) bytes_per_token: Option<u32>,
}

/// The tokens of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentCost {
    /// The same number for every document.
    Fixed(u32),
    /// A number for each page, as text and as image together. If the message has the document itself, a page is 100
    /// KiB, and there are at most 100 pages. Otherwise there is one page. The pages are a guess: their number is in a
    /// part of a PDF that is usually compressed. A document of plain text has the tokens of its text.
    Pages(u32),
}

/// The bytes of a page of a PDF, and the largest number of pages. The number of pages is a guess, which must not
/// exclude calls that the provider would accept.
const PAGE_BYTES: usize = 100 << 10;
const MAX_PAGES: usize = 100;

impl Costs {
    /// Creates the costs of OpenAI's chat models, which the [module docs](crate::context::tokens) list.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            message: PER_MESSAGE + 1,
            name: 1,
            call: 3,
            result: 0,
            image: ImageCost::Fixed(IMAGE_HIGH_DETAIL),
            low_detail: IMAGE_LOW_DETAIL,
            audio: MediaCost { unknown: AUDIO, bytes_per_token: None },
            video: MediaCost { unknown: FILE, bytes_per_token: None },
            document: DocumentCost::Fixed(FILE),
            sealed_bytes: 6,
            reply_priming: REPLY_PRIMING,
            tools_priming: 0,
        }
    }

    /// Sets the tokens of a message, with its role. The default is 4.
    #[must_use]
    pub const fn message(mut self, tokens: u32) -> Self {
        self.message = tokens;
        self
    }

    /// Sets the tokens of a call, in addition to those of its name and its arguments. The default is 3.
    #[must_use]
    pub const fn call(mut self, tokens: u32) -> Self {
        self.call = tokens;
        self
    }

    /// Sets the tokens of a call's result, in addition to those of its text. The default is 0.
    #[must_use]
    pub const fn result(mut self, tokens: u32) -> Self {
        self.result = tokens;
        self
    }

    /// Sets the tokens of an image, and of one whose message asks for low detail.
    #[must_use]
    pub(crate) const fn image(mut self, image: ImageCost, low_detail: u32) -> Self {
        self.image = image;
        self.low_detail = low_detail;
        self
    }

    /// Sets the tokens of audio.
    #[must_use]
    pub(crate) const fn audio(mut self, audio: MediaCost) -> Self {
        self.audio = audio;
        self
    }

    /// Sets the tokens of a video.
    #[must_use]
    pub(crate) const fn video(mut self, video: MediaCost) -> Self {
        self.video = video;
        self
    }

    /// Sets the tokens of a file or a document.
    #[must_use]
    pub(crate) const fn document(mut self, document: DocumentCost) -> Self {
        self.document = document;
        self
    }

    /// Sets the bytes per token of data that only the provider can read, such as encrypted reasoning (at least 1). The
    /// default is 6.
    #[must_use]
    pub const fn sealed_bytes(mut self, bytes: u32) -> Self {
        self.sealed_bytes = if bytes == 0 { 1 } else { bytes };
        self
    }

    /// Sets the tokens that each request has in addition to its parts. The default is 3, which prime the reply.
    #[must_use]
    pub const fn reply_priming(mut self, tokens: u32) -> Self {
        self.reply_priming = tokens;
        self
    }

    /// Sets the tokens that each request with tools has in addition to the JSON of the tools. The default is 0.
    #[must_use]
    pub const fn tools_priming(mut self, tokens: u32) -> Self {
        self.tools_priming = tokens;
        self
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}

impl ImageCost {
    /// Returns the tokens of an image, with its data if the message has it.
    pub(super) fn tokens(self, data: Option<&str>) -> u32 {
        match self {
            Self::Fixed(tokens) => tokens,
            Self::Squares { side, longest_side, max_tokens } => {
                let Some(size) = data.and_then(pixels) else { return max_tokens };
                let squares = tiles(shrunk(size, longest_side), side);
                u32::try_from(squares).unwrap_or(u32::MAX).clamp(1, max_tokens.max(1))
            }
            Self::Tiles { side, small, longest_side, tokens, unknown } => {
                let Some(size) = data.and_then(pixels) else { return unknown };
                let (width, height) = shrunk(size, longest_side);
                let is_small = width.max(height) <= u64::from(small);
                let tiles = if is_small { 1 } else { tiles((width, height), side) };
                u32::try_from(tiles.saturating_mul(tokens.into())).unwrap_or(u32::MAX)
            }
        }
    }
}

/// Returns the sides of an image, in pixels, after its longer side was reduced to this number of pixels.
fn shrunk((width, height): (u64, u64), longest_side: u32) -> (u64, u64) {
    let longest = width.max(height).max(1);
    let reduced = longest.min(u64::from(longest_side));
    (width.saturating_mul(reduced) / longest, height.saturating_mul(reduced) / longest)
}

/// Returns the number of squares with this side that cover an image.
fn tiles((width, height): (u64, u64), side: u32) -> u64 {
    let side = u64::from(side.max(1));
    width.div_ceil(side).saturating_mul(height.div_ceil(side))
}

impl MediaCost {
    /// Returns the tokens of the medium, with its data if the message has it.
    pub(super) fn tokens(self, data: Option<&str>) -> u32 {
        let (Some(per_token), Some(data)) = (self.bytes_per_token, data) else { return self.unknown };
        u32::try_from(bytes(data).div_ceil(per_token.max(1) as usize)).unwrap_or(u32::MAX)
    }
}

impl DocumentCost {
    /// Returns the tokens of the document, with its data if the message has it.
    pub(super) fn tokens(self, data: Option<&str>, count_text: impl FnOnce(&str) -> u32) -> u32 {
        let (per_page, data) = match (self, data) {
            (Self::Fixed(tokens) | Self::Pages(tokens), None) | (Self::Fixed(tokens), _) => return tokens,
            (Self::Pages(tokens), Some(data)) => (tokens, data),
        };
        if let Some(text) = text(data) {
            return count_text(&text);
        }

        let pages = bytes(data).div_ceil(PAGE_BYTES).clamp(1, MAX_PAGES);
        per_page.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX))
    }
}

/// The bytes of an image's beginning that are decoded. They contain the size in pixels, unless a photo has a larger
/// preview before it.
const HEADER_BYTES: usize = 48 << 10;

/// The data, and its type if it is known.
struct Data<'a> {
    mime: Option<&'a str>,
    /// True if the content is base64. Otherwise it is a text with percent signs.
    is_base64: bool,
    content: &'a str,
}

impl<'a> Data<'a> {
    /// Splits a `data:` URL. Other data is base64 without a type.
    fn of(data: &'a str) -> Self {
        let url = data.strip_prefix("data:").and_then(|url| url.split_once(','));
        let Some((head, content)) = url else { return Self { mime: None, is_base64: true, content: data } };
        let mime = head.split(';').next().filter(|mime| !mime.is_empty());
        Self { mime, is_base64: head.ends_with(";base64"), content }
    }
}

/// Returns the number of bytes.
fn bytes(data: &str) -> usize {
    let Data { is_base64, content, .. } = Data::of(data);
    if is_base64 { content.trim_end_matches('=').len() / 4 * 3 } else { content.len() }
}

/// Returns the text, if the data has a type of text.
fn text(data: &str) -> Option<Cow<'_, str>> {
    let Data { mime, is_base64, content } = Data::of(data);
    let mime = mime?;
    if !mime.starts_with("text/") && mime != "application/json" {
        return None;
    }

    if !is_base64 {
        return Some(Cow::Borrowed(content));
    }
    String::from_utf8(STANDARD.decode(content).ok()?).ok().map(Cow::Owned)
}

/// Returns the width and the height of an image in pixels, if its header has them.
pub(crate) fn pixels(data: &str) -> Option<(u64, u64)> {
    let Data { is_base64, content, .. } = Data::of(data);
    if !is_base64 {
        return None;
    }

    let content = content.trim_end_matches('=').as_bytes();
    let whole = content.len().min(HEADER_BYTES / 3 * 4) / 4 * 4;
    let header = STANDARD.decode(&content[..whole]).ok()?;
    let size = imagesize::blob_size(&header).ok()?;
    Some((size.width as u64, size.height as u64))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the `data:` URL of the beginning of a PNG image with this size.
    pub(in crate::context::tokens) fn png(width: u32, height: u32) -> String {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        png.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        png.extend([8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        format!("data:image/png;base64,{}", STANDARD.encode(png))
    }

    #[test]
    fn the_size_of_an_image_is_read_from_its_header() {
        assert_eq!(pixels(&png(1_920, 1_080)), Some((1_920, 1_080)));
        let png = png(7, 9);
        assert_eq!(pixels(png.split_once(',').unwrap().1), Some((7, 9)), "base64 without a type");
        let gif = STANDARD.encode(b"GIF89a\x0a\0\x14\0\0\0\0");
        assert_eq!(pixels(&gif), Some((10, 20)));
        let jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xc0\0\x11\x08\0\x20\0\x40\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        assert_eq!(pixels(&STANDARD.encode(jpeg)), Some((64, 32)));
        for data in ["", "data:", "data:,", "data:image/png,x", "=", "AAAA", "not base64", "data:image/png;base64,*"] {
            assert_eq!(pixels(data), None, "{data}");
        }
    }

    #[test]
    fn the_bytes_of_data_are_those_after_decoding() {
        for (data, expected) in [("", 0), ("AAAA", 3), ("data:a/b;base64,AAAAAAAA", 6), ("data:a/b,abc", 3)] {
            assert_eq!(bytes(data), expected, "{data}");
        }
    }

    #[test]
    fn only_types_of_text_have_a_text() {
        let url = |mime: &str| format!("data:{mime};base64,{}", STANDARD.encode("some text"));
        for mime in ["text/plain", "text/csv;charset=utf-8", "application/json"] {
            assert_eq!(text(&url(mime)).as_deref(), Some("some text"), "{mime}");
        }
        assert_eq!(text("data:text/plain,a%20b").as_deref(), Some("a%20b"));
        for data in [url("application/pdf"), url(""), STANDARD.encode("some text"), "data:text/plain;base64,*".into()] {
            assert_eq!(text(&data), None, "{data}");
        }
    }
}
