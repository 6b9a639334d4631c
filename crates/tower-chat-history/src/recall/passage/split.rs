//! Splitting of long texts.

use crate::recall::analyzer::is_unspaced;

/// The words of a passage. About half of them are stop words, so about 160 terms are left.
const WORDS: usize = 300;
/// A passage ends at a sentence if it has at least this many words by then.
const SENTENCE: usize = WORDS / 2;
/// This many characters count as a word, so that text without spaces is split too.
const WORD_CHARS: usize = 16;

/// Splits a text into passages of at most 300 words, at the end of a sentence if there is one in the second half,
/// else between words. Passages join to the text.
pub(super) fn passages(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (passage, after) = rest.split_at(first_end(rest));
        rest = after;
        Some(passage)
    })
}

/// Returns the end of the first passage. It is not 0 unless the text is empty.
fn first_end(text: &str) -> usize {
    let (mut words, mut word_chars) = (0, 0);
    let mut sentence = None;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        let space = c.is_whitespace();
        let starts = !space && (previous.is_whitespace() || is_unspaced(c));
        if words >= SENTENCE && ends_sentence(previous) && (space || is_unspaced(c)) {
            sentence = Some(at);
        }
        word_chars = if starts || space { 0 } else { word_chars + 1 };
        if starts || word_chars == WORD_CHARS {
            if words == WORDS {
                return sentence.unwrap_or(at);
            }
            words += 1;
            word_chars = 0;
        }
        previous = c;
    }
    text.len()
}

const fn ends_sentence(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '\n' | '…' | '。' | '！' | '？' | '।' | '؟')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn passages_end_at_sentences() {
        let text = format!("{}end. {}", "word ".repeat(199), "more ".repeat(250));
        let lens: Vec<usize> = passages(&text).map(|passage| passage.split_whitespace().count()).collect();
        assert_eq!(lens, [200, 250]);
        let lens: Vec<usize> = passages(&"word ".repeat(650)).map(|p| p.split_whitespace().count()).collect();
        assert_eq!(lens, [300, 300, 50]);
    }

    #[test]
    fn text_without_spaces_is_split() {
        assert_eq!(passages(&"x".repeat(100_000)).map(str::len).max(), Some(WORDS * WORD_CHARS));
        assert_eq!(passages(&"天".repeat(1000)).map(|passage| passage.chars().count()).max(), Some(300));
    }

    proptest! {
        #[test]
        fn passages_join_to_the_text(pieces in prop::collection::vec("(\\PC{0,9}|[a-z]{1,9}|[.!?] |天{1,40})", 0..900)) {
            let text = pieces.join(" ");
            let split: Vec<&str> = passages(&text).collect();
            prop_assert_eq!(&split.concat(), &text);
            for passage in split {
                prop_assert!(!passage.is_empty());
                prop_assert!(passage.chars().count() <= (WORDS + 1) * WORD_CHARS * 2, "{}", passage.chars().count());
            }
        }
    }
}
