//! Watermarks for delimiters: what does not stand in the text between them cannot close them.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::delimit::folded;

/// The place of the mark in the text around a summary.
pub(super) const PLACE: &str = "{mark}";

/// Sixteen hexadecimal digits that do not stand in any of the texts: neither as they are, nor in other case, nor with
/// anything in between that is no letter or digit.
///
/// They are the beginning of a hash of the texts, so the same texts have the same mark in every process, and nobody can
/// write a text with the mark that it will get. If a text has it all the same, the next hash is taken.
pub(super) fn mark(texts: &[&str]) -> String {
    first_that_is_missing(texts, |number| hash(texts, number))
}

/// The first of the marks that stands in no text.
fn first_that_is_missing(texts: &[&str], mark: impl Fn(u64) -> String) -> String {
    let squeezed: Vec<String> = texts.iter().map(|text| squeezed(text)).collect();
    let mut number = 0;
    loop {
        let mark = mark(number);
        if !squeezed.iter().any(|text| text.contains(&mark)) {
            return mark;
        }
        // A text has fewer places for a mark than there are marks, so this ends; in practice with the first one.
        number += 1;
    }
}

fn hash(texts: &[&str], number: u64) -> String {
    let mut hash = Sha256::new();
    hash.update(number.to_le_bytes());
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(8).fold(String::with_capacity(16), |mut mark, byte| {
        // Writing to a string does not fail.
        let _ = write!(mark, "{byte:02x}");
        mark
    })
}

/// What a loose reader sees of a text: its letters and digits of ASCII, in lower case.
fn squeezed(text: &str) -> String {
    text.chars().filter_map(folded).filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mark_depends_on_the_texts_alone() {
        assert_eq!(mark(&["a", "b"]), mark(&["a", "b"]));
        assert_eq!(mark(&["a", "b"]).len(), 16);
        for other in [["ab", ""], ["b", "a"], ["a", "b "]] {
            assert_ne!(mark(&["a", "b"]), mark(&other));
        }
    }

    #[test]
    fn a_mark_that_stands_in_a_text_is_passed_over() {
        let marks = |number: u64| format!("{number:016x}");
        let text = "0000 0000-0000_0000 \u{ff10}000\u{200b}0000 0000 0001";
        assert_eq!(first_that_is_missing(&["a", text], marks), "0000000000000002");
    }

    proptest! {
        #[test]
        fn a_mark_stands_in_no_text(text in "\\PC{0,200}", other in "[0-9a-f]{0,400}") {
            let mark = mark(&[&text, &other]);
            prop_assert!(!squeezed(&text).contains(&mark) && !squeezed(&other).contains(&mark));
        }
    }
}
