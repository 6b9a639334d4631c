//! The tokens of a text, estimated by its words, digits and characters.

use std::iter;

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
        let (mut hundredths, mut letters) = (0_u64, 0_u32);
        let classes = text.chars().map(|c| (c, Class::of(c)));
        let before = iter::once(None).chain(text.chars().map(|c| Some(Class::of(c))));
        for ((c, class), before) in classes.zip(before) {
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
