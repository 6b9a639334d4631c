//! The words of a text, by script.

use std::ops::ControlFlow;

use unicode_segmentation::UnicodeSegmentation;

/// The longest part of a word that is used, in characters.
pub(super) const MAX_WORD_CHARS: usize = 64;

/// A word, before it is stemmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    /// A word of a script that writes spaces, or of Katakana.
    Plain(&'a str),
    /// Neighboring characters of a script without spaces, syllables of a Hangul word, or a lone one of these.
    Gram(&'a str),
}

/// Calls `each` for every word of a text in lower case, until it breaks.
///
/// Words are those of UAX 29. It makes one word of each character of Han, Hiragana, Thai and related scripts: runs of
/// these become pairs of neighbors. Hangul words, which carry particles, become pairs of syllables.
pub(super) fn each_word<'a>(text: &'a str, mut each: impl FnMut(Word<'a>) -> ControlFlow<()>) -> ControlFlow<()> {
    // The character that the next one may form a pair with: its range, and `true` if it is in a pair already.
    let mut single: Option<(usize, usize, bool)> = None;
    for (start, word) in text.unicode_word_indices() {
        let word = clipped(word);
        let end = start + word.len();
        let first = word.chars().next().unwrap_or_default();
        if is_unspaced(first) {
            match single {
                Some((from, to, _)) if to == start => {
                    single = Some((start, end, true));
                    each(Word::Gram(&text[from..end]))?;
                }
                other => {
                    lone(text, other, &mut each)?;
                    single = Some((start, end, false));
                }
            }
            continue;
        }
        lone(text, single.take(), &mut each)?;
        if is_hangul(first) {
            syllable_pairs(word, &mut each)?;
        } else {
            each(Word::Plain(word))?;
        }
    }
    lone(text, single, &mut each)
}

/// Passes on a character that is in no pair.
fn lone<'a>(
    text: &'a str,
    single: Option<(usize, usize, bool)>,
    each: &mut impl FnMut(Word<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match single {
        Some((from, to, false)) => each(Word::Gram(&text[from..to])),
        _ => ControlFlow::Continue(()),
    }
}

/// Passes on the pairs of neighboring syllables, or the only one.
fn syllable_pairs<'a>(word: &'a str, each: &mut impl FnMut(Word<'a>) -> ControlFlow<()>) -> ControlFlow<()> {
    let starts = word.char_indices().map(|(at, _)| at);
    let ends = starts.clone().skip(2).chain([word.len()]);
    starts.zip(ends).try_for_each(|(from, to)| each(Word::Gram(&word[from..to])))
}

fn clipped(word: &str) -> &str {
    // A character has at most 4 bytes, so most words need no search.
    if word.len() <= MAX_WORD_CHARS {
        return word;
    }
    word.char_indices().nth(MAX_WORD_CHARS).map_or(word, |(end, _)| &word[..end])
}

/// Returns `true` for letters of scripts that are written without spaces, each of which is a word of its own by
/// UAX 29: Han, Hiragana, Thai, Lao, Khmer, Burmese and others of South-East Asia.
pub(crate) const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19df}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{3040}'..='\u{309f}' | '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns `true` for syllables and letters of Hangul.
const fn is_hangul(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3130}'..='\u{318f}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let _ = each_word(text, |word| {
            words.push(match word {
                Word::Plain(word) => word.to_owned(),
                Word::Gram(gram) => format!("({gram})"),
            });
            ControlFlow::Continue(())
        });
        words
    }

    #[test]
    fn text_without_spaces_becomes_pairs() {
        assert_eq!(words("今天天气"), ["(今天)", "(天天)", "(天气)"]);
        assert_eq!(words("我 love 猫。狗"), ["(我)", "love", "(猫)", "(狗)"]);
        assert_eq!(words("กินข้าว"), ["(กิน)", "(นข้)", "(ข้า)", "(าว)"]);
        assert_eq!(words("テレビを見た"), ["テレビ", "(を見)", "(見た)"]);
    }

    #[test]
    fn hangul_words_become_pairs_of_syllables() {
        assert_eq!(words("공원에서 산책 집"), ["(공원)", "(원에)", "(에서)", "(산책)", "(집)"]);
    }

    #[test]
    fn words_are_clipped() {
        let long = "ä".repeat(1000);
        assert_eq!(words(&format!("{long} b")), ["ä".repeat(64).as_str(), "b"]);
    }
}
