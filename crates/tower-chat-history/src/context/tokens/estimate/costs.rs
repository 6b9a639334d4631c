//! The costs of the parts of a message that are not texts.

use super::media;

/// The tokens of the parts of a message that are not texts, in addition to their texts.
///
/// [`Costs::new`] has the costs of OpenAI's chat models. [`Estimate`](super::Estimate) has presets for other models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    pub(in crate::context::tokens) message: u32,
    pub(in crate::context::tokens) name: u32,
    pub(in crate::context::tokens) call: u32,
    pub(in crate::context::tokens) result: u32,
    pub(in crate::context::tokens) image: ImageCost,
    pub(in crate::context::tokens) low_detail: u32,
    pub(in crate::context::tokens) audio: MediaCost,
    pub(in crate::context::tokens) video: MediaCost,
    pub(in crate::context::tokens) document: DocumentCost,
    pub(in crate::context::tokens) sealed_bytes: u32,
    pub(in crate::context::tokens) reply_priming: u32,
    pub(in crate::context::tokens) tools_priming: u32,
}

/// The tokens of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageCost {
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
pub struct MediaCost {
    /// The tokens if the message has only a reference to the data.
    pub unknown: u32,
    /// The bytes per token if the message has the data itself, or `None` if the data has the same number of tokens as
    /// a reference.
    pub bytes_per_token: Option<u32>,
}

/// The tokens of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DocumentCost {
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
        use crate::context::tokens::{AUDIO, FILE, IMAGE_HIGH_DETAIL, IMAGE_LOW_DETAIL, PER_MESSAGE, REPLY_PRIMING};
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
    pub const fn image(mut self, image: ImageCost, low_detail: u32) -> Self {
        (self.image, self.low_detail) = (image, low_detail);
        self
    }

    /// Sets the tokens of audio.
    #[must_use]
    pub const fn audio(mut self, audio: MediaCost) -> Self {
        self.audio = audio;
        self
    }

    /// Sets the tokens of a video.
    #[must_use]
    pub const fn video(mut self, video: MediaCost) -> Self {
        self.video = video;
        self
    }

    /// Sets the tokens of a file or a document.
    #[must_use]
    pub const fn document(mut self, document: DocumentCost) -> Self {
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
    pub(in crate::context::tokens) fn tokens(self, data: Option<&str>) -> u32 {
        let ceil = |pixels: u64, side: u32| pixels.div_ceil(u64::from(side.max(1)));
        let limited = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let size = || data.and_then(media::pixels);
        match self {
            Self::Fixed(tokens) => tokens,
            Self::Squares { side, longest_side, max_tokens } => size().map_or(max_tokens, |size| {
                let (width, height) = shrunk(size, longest_side);
                limited(ceil(width, side).saturating_mul(ceil(height, side))).clamp(1, max_tokens.max(1))
            }),
            Self::Tiles { side, small, longest_side, tokens, unknown } => size().map_or(unknown, |size| {
                let (width, height) = shrunk(size, longest_side);
                let is_small = width.max(height) <= u64::from(small);
                let tiles = if is_small { 1 } else { ceil(width, side).saturating_mul(ceil(height, side)) };
                limited(tiles.saturating_mul(tokens.into()))
            }),
        }
    }
}

/// Returns the sides of an image, in pixels, after its longer side was reduced to this number of pixels.
fn shrunk((width, height): (u64, u64), longest_side: u32) -> (u64, u64) {
    let longest = width.max(height).max(1);
    let shrunk = |pixels: u64| pixels.saturating_mul(u64::from(longest_side).min(longest)) / longest;
    (shrunk(width), shrunk(height))
}

impl MediaCost {
    /// Returns the tokens of the medium, with its data if the message has it.
    pub(in crate::context::tokens) fn tokens(self, data: Option<&str>) -> u32 {
        match (self.bytes_per_token, data) {
            (Some(bytes), Some(data)) => {
                u32::try_from(media::bytes(data).div_ceil(bytes.max(1) as usize)).unwrap_or(u32::MAX)
            }
            _ => self.unknown,
        }
    }
}

impl DocumentCost {
    /// Returns the tokens of the document, with its data if the message has it.
    pub(in crate::context::tokens) fn tokens(self, data: Option<&str>, count_text: impl FnOnce(&str) -> u32) -> u32 {
        let (per_page, data) = match (self, data) {
            (Self::Fixed(tokens) | Self::Pages(tokens), None) | (Self::Fixed(tokens), _) => return tokens,
            (Self::Pages(tokens), Some(data)) => (tokens, data),
        };
        if let Some(text) = media::text(data) {
            return count_text(&text);
        }
        let pages = media::bytes(data).div_ceil(PAGE_BYTES).clamp(1, MAX_PAGES);
        per_page.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX))
    }
}
