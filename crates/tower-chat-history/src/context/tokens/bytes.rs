//! An estimate by the number of bytes.

use std::sync::{Arc, LazyLock};

use super::{TokenCounter, count_of};

/// Estimates the tokens of a text by the UTF-8 bytes of its characters:
///
/// | characters | tokens |
/// |---|---|
/// | ASCII | 1 for every 4 |
/// | of two bytes (accented letters, Cyrillic, Arabic) | 1 for each |
/// | of three or four bytes (Chinese, Japanese, Korean, emoji) | 8 for every 5 |
///
/// The estimate is close for English. For prose in other scripts, it is at least the count of `cl100k_base`, the older
/// of OpenAI's two encodings. (That count is up to twice the count of the newer encoding.) Prompts in these scripts
/// therefore do not become too large. With an estimate by the number of characters, they would.
///
/// The counter needs no vocabulary and almost no time. The estimate is too low for texts other than prose: long
/// numbers, identifiers, base64, lists of rare names.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ByteEstimate;

static NAME: LazyLock<Arc<str>> = LazyLock::new(|| "utf8-bytes".into());

impl ByteEstimate {
    /// Creates the counter.
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
        let (mut ascii, mut short, mut wide) = (0_usize, 0_usize, 0_usize);
        for c in text.chars() {
            match c.len_utf8() {
                1 => ascii += 1,
                2 => short += 1,
                _ => wide += 1,
            }
        }
        count_of(ascii.div_ceil(4) + short + (wide * 8).div_ceil(5))
    }

    fn is_estimate(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers for o200k_base and cl100k_base are the counts of tiktoken.
    #[test]
    fn other_scripts_are_not_underestimated() {
        for (text, o200k, cl100k) in [
            ("今天天气很好，我们一起去公园散步吧。路上可以买一些水果和面包。", 22, 35),
            ("臨江仙，滾滾長江東逝水，浪花淘盡英雄。是非成敗轉頭空，青山依舊在，幾度夕陽紅。", 45, 61),
            ("今日は天気がいいので、公園を散歩しましょう。", 14, 26),
            ("오늘은 날씨가 좋으니 공원에서 산책합시다.", 17, 29),
        ] {
            let counted = ByteEstimate::new().count_text(text);
            assert!(counted >= o200k.max(cl100k), "{counted}: {text}");
        }
        assert_eq!(ByteEstimate::new().count_text("ordinary English prose"), 6);
    }
}
