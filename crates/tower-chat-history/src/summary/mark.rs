//! Marks in delimiters. A text that does not contain the mark cannot contain the closing delimiter.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::delimit::folded;

/// The placeholder for the mark in the text around a summary.
pub(super) const PLACEHOLDER: &str = "{mark}";

/// Returns sixteen hexadecimal digits that occur in none of the texts. Upper and lower case are the same, and
/// characters between the digits that are not ASCII letters or digits are ignored.
///
/// The digits are the beginning of a hash of the texts. Therefore the same texts have the same mark in every process,
/// and the author of a text cannot include its mark. If a text contains it by chance, the next hash is used.
pub(super) fn mark(texts: &[&str]) -> String {
    first_unused(texts, |number| hash(texts, number))
}

/// Returns the first of the marks that occurs in no text.
fn first_unused(texts: &[&str], mark: impl Fn(u64) -> String) -> String {
    let squeezed: Vec<String> = texts.iter().map(|text| squeezed(text)).collect();
    let mut number = 0;
    loop {
        let mark = mark(number);
        if !squeezed.iter().any(|text| text.contains(&mark)) {
            return mark;
        }
        // No text can contain all marks, so this loop ends. In practice, it ends with the first mark.
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

/// Returns only the ASCII letters and digits of a text, normalized and in lower case.
fn squeezed(text: &str) -> String {
    text.chars().filter_map(folded).filter(char::is_ascii_alphanumeric).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mark_depends_only_on_the_texts() {
        assert_eq!(mark(&["a", "b"]), mark(&["a", "b"]));
        assert_eq!(mark(&["a", "b"]).len(), 16);
        for other in [["ab", ""], ["b", "a"], ["a", "b "]] {
            assert_ne!(mark(&["a", "b"]), mark(&other));
        }
    }

    #[test]
    fn a_mark_that_occurs_in_a_text_is_skipped() {
        let marks = |number: u64| format!("{number:016x}");
        let text = "0000 0000-0000_0000 \u{ff10}000\u{200b}0000 0000 0001";
        assert_eq!(first_unused(&["a", text], marks), "0000000000000002");
    }

    proptest! {
        #[test]
        fn a_mark_occurs_in_no_text(text in "\\PC{0,200}", other in "[0-9a-f]{0,400}") {
            let mark = mark(&[&text, &other]);
            prop_assert!(!squeezed(&text).contains(&mark) && !squeezed(&other).contains(&mark));
        }
    }
}
