//! An estimate by the size of a text.

use std::sync::{Arc, LazyLock};

use super::{TokenCounter, count_of};

/// Counts a token for every four bytes of UTF-8, rounded up: close for English, too many for languages of other scripts (a
/// Chinese character has three bytes and mostly is one token or less). So it does not let prompts grow too long where
/// an estimate by characters would.
///
/// It needs no vocabulary and costs nothing. It under-counts what is not prose: long numbers, identifiers, base64.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ByteEstimate;

const BYTES_PER_TOKEN: usize = 4;

static NAME: LazyLock<Arc<str>> = LazyLock::new(|| "utf8-bytes/4".into());

impl ByteEstimate {
    /// The counter.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl TokenCounter for ByteEstimate {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&NAME)
    }

    fn count_text(&self, text: &str) -> u32 {
        count_of(text.len().div_ceil(BYTES_PER_TOKEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_three_bytes_a_character_are_not_under_counted() {
        // 20 tokens in o200k_base, which a quarter of the characters would put at 8.
        let text = "今天天气很好，我们一起去公园散步吧。路上可以买一些水果和面包。";
        assert!(ByteEstimate::new().count_text(text) >= 20);
    }
}
