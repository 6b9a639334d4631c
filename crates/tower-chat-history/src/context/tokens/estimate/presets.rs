//! The presets: costs by family of models, and the rates by which the tokens of a text are estimated.
//!
//! The rates of texts were fitted to counts of published tokenizers for prose, code, JSON and software messages in 14
//! languages, and rounded up. Stored counts are found by the preset's name, so a change of the numbers needs another
//! name.

use std::sync::{Arc, LazyLock};

use crate::context::tokens::{Costs, DocumentCost, ImageCost, MediaCost};

pub(super) struct Preset {
    pub(super) name: LazyLock<Arc<str>>,
    pub(super) costs: Costs,
    pub(super) rates: TextRates,
}

/// Rates of o200k_base.
pub(super) static OPENAI: Preset = Preset {
    name: LazyLock::new(|| "openai-estimate".into()),
    costs: Costs::new(),
    rates: TextRates {
        word: 105,
        long: 30,
        digit: 65,
        punctuation: 55,
        space: 20,
        accented: 60,
        two_bytes: 45,
        ideograph: 100,
        hangul: 90,
        other: 60,
    },
};

const ANTHROPIC_COSTS: Costs = Costs::new().call(12).result(10).document(DocumentCost::Pages(3_000)).sealed_bytes(5);

/// Rates of the tokenizer that Anthropic published for Claude 2.
const ANTHROPIC_OLDER_RATES: TextRates = TextRates {
    word: 115,
    long: 30,
    digit: 55,
    punctuation: 65,
    space: 25,
    accented: 220,
    two_bytes: 90,
    ideograph: 110,
    hangul: 140,
    other: 140,
};

pub(super) static ANTHROPIC_OLDER: Preset = Preset {
    name: LazyLock::new(|| "anthropic-older-estimate".into()),
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 1_568, max_tokens: 1_568 }, 1_568)
        .tools_priming(346),
    rates: ANTHROPIC_OLDER_RATES,
};

/// The rates of the older models, with those of words raised by the published measurements.
pub(super) static ANTHROPIC: Preset = Preset {
    name: LazyLock::new(|| "anthropic-estimate".into()),
    costs: ANTHROPIC_COSTS
        .image(ImageCost::Squares { side: 28, longest_side: 2_576, max_tokens: 4_784 }, 4_784)
        .document(DocumentCost::Pages(4_500))
        .tools_priming(406),
    rates: TextRates { word: 155, long: 40, punctuation: 80, space: 30, ..ANTHROPIC_OLDER_RATES },
};

const GEMINI_COSTS: Costs = Costs::new()
    .call(8)
    .result(8)
    .audio(MediaCost { unknown: 1_920, bytes_per_token: Some(500) })
    .video(MediaCost { unknown: 6_120, bytes_per_token: Some(1_000) });

/// Rates of the tokenizer of the first Gemma, which is said to be that of Gemini.
const GEMINI_RATES: TextRates = TextRates {
    word: 110,
    long: 25,
    digit: 120,
    punctuation: 60,
    space: 35,
    accented: 45,
    two_bytes: 45,
    ideograph: 80,
    hangul: 95,
    other: 55,
};

pub(super) static GEMINI: Preset = Preset {
    name: LazyLock::new(|| "gemini-estimate".into()),
    costs: GEMINI_COSTS.image(ImageCost::Fixed(1_120), 1_120).document(DocumentCost::Pages(1_120)),
    rates: GEMINI_RATES,
};

pub(super) static GEMINI_OLDER: Preset = Preset {
    name: LazyLock::new(|| "gemini-older-estimate".into()),
    costs: GEMINI_COSTS
        .image(ImageCost::Tiles { side: 768, small: 384, longest_side: 3_072, tokens: 258, unknown: 1_548 }, 1_548)
        .video(MediaCost { unknown: 17_700, bytes_per_token: Some(1_000) })
        .document(DocumentCost::Pages(1_120)),
    rates: GEMINI_RATES,
};

/// Rates of the tokenizer of DeepSeek V3.
pub(super) static DEEPSEEK: Preset = Preset {
    name: LazyLock::new(|| "deepseek-estimate".into()),
    costs: Costs::new().call(12).result(4),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 65,
        punctuation: 60,
        space: 30,
        accented: 110,
        two_bytes: 50,
        ideograph: 80,
        hangul: 95,
        other: 80,
    },
};

/// Rates of the tokenizer of Llama 3.
pub(super) static LLAMA: Preset = Preset {
    name: LazyLock::new(|| "llama-estimate".into()),
    costs: Costs::new().message(5).call(9).result(2),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 65,
        punctuation: 55,
        space: 20,
        accented: 55,
        two_bytes: 45,
        ideograph: 100,
        hangul: 95,
        other: 75,
    },
};

/// Rates of the tokenizer of Qwen 3.
pub(super) static QWEN: Preset = Preset {
    name: LazyLock::new(|| "qwen-estimate".into()),
    costs: Costs::new().message(5).call(13).result(6).tools_priming(82),
    rates: TextRates {
        word: 105,
        long: 45,
        digit: 120,
        punctuation: 55,
        space: 20,
        accented: 60,
        two_bytes: 60,
        ideograph: 90,
        hangul: 100,
        other: 120,
    },
};

/// Mistral's tokenizers were not measured. The rates are the highest ones of the other open models.
pub(super) static MISTRAL: Preset = Preset {
    name: LazyLock::new(|| "mistral-estimate".into()),
    costs: Costs::new().call(18).result(16),
    rates: TextRates {
        word: 110,
        long: 45,
        digit: 120,
        punctuation: 60,
        space: 35,
        accented: 110,
        two_bytes: 60,
        ideograph: 100,
        hangul: 100,
        other: 120,
    },
};

/// The tokens of the parts of a text, in hundredths of a token.
///
/// A tokenizer splits a text into words, digits, punctuation and spaces before it looks for tokens. Most of its count
/// therefore depends on the number of these parts, and not on the number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextRates {
    /// A word of ASCII letters. A change from lower to upper case begins another word.
    pub(super) word: u32,
    /// Each letter of a word after the [first ones](FREE_LETTERS).
    pub(super) long: u32,
    pub(super) digit: u32,
    pub(super) punctuation: u32,
    /// White space other than one space between two words.
    pub(super) space: u32,
    /// A Latin letter with an accent.
    pub(super) accented: u32,
    /// Another character of two bytes: Cyrillic, Greek, Hebrew, Arabic.
    pub(super) two_bytes: u32,
    /// A Chinese or Japanese character.
    pub(super) ideograph: u32,
    pub(super) hangul: u32,
    /// Any other character: Devanagari, Thai, emoji.
    pub(super) other: u32,
}

/// The length of a word up to which its letters cost nothing.
const FREE_LETTERS: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Punctuation,
    Space,
    Accented,
    TwoBytes,
    Ideograph,
    Hangul,
    Other,
}

impl Class {
    const fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            ' ' | '\t' | '\n' | '\r' => Self::Space,
            '\0'..='\u{7f}' => Self::Punctuation,
            '\u{80}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Accented,
            '\u{250}'..='\u{7ff}' => Self::TwoBytes,
            '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => Self::Hangul,
            '\u{3000}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{31fff}' => {
                Self::Ideograph
            }
            _ => Self::Other,
        }
    }
}

impl TextRates {
    /// Returns the tokens of a text.
    pub(super) fn count(&self, text: &str) -> u32 {
        let mut hundredths = 0_u64;
        let mut letters = 0_u32;
        let mut before = None;
        for c in text.chars() {
            let class = Class::of(c);
            let cost = match class {
                Class::Lower | Class::Upper => {
                    let continues = match before {
                        Some(Class::Lower) => class == Class::Lower,
                        before => matches!(before, Some(Class::Upper | Class::Accented)),
                    };
                    letters = if continues { letters.saturating_add(1) } else { 1 };
                    match continues {
                        false => self.word,
                        true if letters > FREE_LETTERS => self.long,
                        true => 0,
                    }
                }
                Class::Digit => self.digit,
                Class::Punctuation => self.punctuation,
                Class::Space if c == ' ' && before != Some(Class::Space) => 0,
                Class::Space => self.space,
                Class::Accented => self.accented,
                Class::TwoBytes => self.two_bytes,
                Class::Ideograph => self.ideograph,
                Class::Hangul => self.hangul,
                Class::Other => self.other,
            };
            hundredths += u64::from(cost);
            before = Some(class);
        }

        // A text that is not empty has a token, even if it is one space.
        let least = u64::from(!text.is_empty());
        u32::try_from(hundredths.div_ceil(100).max(least)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of part has another cost, so that a sum shows which parts were counted.
    const RATES: TextRates = TextRates {
        word: 100,
        long: 1_000,
        digit: 10_000,
        punctuation: 100_000,
        space: 1_000_000,
        accented: 200,
        two_bytes: 2_000,
        ideograph: 20_000,
        hangul: 200_000,
        other: 2_000_000,
    };

    #[test]
    fn each_part_of_a_text_has_its_cost() {
        for (text, tokens) in [
            ("", 0),
            (" ", 1),
            ("two words", 2),
            ("camelCase HTTPServer", 3 + 40),
            ("letters", 1 + 10),
            ("123", 300),
            ("a,b;", 2 + 2_000),
            ("a  b\n", 2 + 20_000),
            ("äé", 4),
            ("äb", 2),
            ("привет", 120),
            ("天気", 400),
            ("한국", 4_000),
            ("🙂ก", 40_000),
        ] {
            assert_eq!(RATES.count(text), tokens, "{text:?}");
        }
    }
}
