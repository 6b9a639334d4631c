//! Delimiters that the text between them cannot contain: by removing them from it, and by a mark in them.
//!
//! # Decisions
//!
//! - **Delimiters have a hash of the text**, because models read a similar tag as the end of the text, and no list of
//!   similar tags is complete. The hash has no key, so every process sends the same bytes.

use std::{borrow::Cow, collections::VecDeque, fmt::Write as _};

use sha2::{Digest as _, Sha256};

/// The placeholder for the mark in the text around a summary.
pub(super) const PLACEHOLDER: &str = "{mark}";

/// The candidates for replacing the first character of a delimiter. The first candidate that does not occur in the
/// delimiter is used. A replacement can therefore not form a new delimiter.
const REPLACEMENTS: [char; 3] = ['\u{2039}', '\u{fffd}', '?'];

/// Replaces the first character of every occurrence of the delimiter in the text. `</data>` becomes `‹/data>`.
///
/// The comparison is loose, because a model may read a variant of the delimiter as the delimiter. It ignores case,
/// white space, invisible characters, and the text between a tag's name and its end. Full-width and similar
/// characters are treated as `<`, `>` and `/`. No list of similar characters is complete, so delimiters also have a
/// [mark]. A blank delimiter has no occurrences.
pub(super) fn defuse<'a>(text: &'a str, delimiter: &str) -> Cow<'a, str> {
    let sought = sought(delimiter);
    let replacement = REPLACEMENTS.into_iter().find(|c| !sought.contains(c)).unwrap_or('_');

    let mut defused = String::new();
    let mut copied = 0;
    for at in occurrences(text, &sought) {
        defused.push_str(&text[copied..at]);
        defused.push(replacement);
        copied = at + text[at..].chars().next().map_or(0, char::len_utf8);
    }

    if defused.is_empty() {
        return Cow::Borrowed(text);
    }
    defused.push_str(&text[copied..]);
    Cow::Owned(defused)
}

/// Returns the byte positions at which occurrences of `sought` begin, including overlapping ones. The time is linear
/// in both lengths (the algorithm of Knuth, Morris and Pratt).
fn occurrences(text: &str, sought: &[char]) -> Vec<usize> {
    if sought.is_empty() {
        return Vec::new();
    }
    let fallback = fallbacks(sought);
    let mut found = Vec::new();
    let mut matched = 0;

    // The positions of the last visible characters, at most as many as are sought.
    let mut positions = VecDeque::with_capacity(sought.len());
    for (at, c) in text.char_indices() {
        let Some(c) = visible_char(c) else { continue };
        if positions.len() == sought.len() {
            positions.pop_front();
        }
        positions.push_back(at);
        matched = next(sought, &fallback, matched, c);
        if matched == sought.len() {
            found.extend(positions.front());
            matched = fallback[matched - 1];
        }
    }
    found
}

/// Returns, for each prefix of `sought`, the length of the longest proper prefix of it that is also a suffix of it.
fn fallbacks(sought: &[char]) -> Vec<usize> {
    let mut fallback = vec![0];
    let mut matched = 0;
    for c in &sought[1..] {
        matched = next(sought, &fallback, matched, *c);
        fallback.push(matched);
    }
    fallback
}

/// Returns the length of the longest prefix of `sought` that matches after the character `c`. `matched` is this
/// length before `c`. It must be less than the length of `sought`.
fn next(sought: &[char], fallback: &[usize], mut matched: usize, c: char) -> usize {
    while sought[matched] != c {
        if matched == 0 {
            return 0;
        }
        matched = fallback[matched - 1];
    }
    matched + 1
}

/// Returns the normalized characters to search for: those of the delimiter, without the closing `>` of a tag.
fn sought(delimiter: &str) -> Vec<char> {
    let delimiter = delimiter.trim();
    visible(if delimiter.starts_with('<') { delimiter.trim_end_matches('>') } else { delimiter }).collect()
}

fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter_map(visible_char)
}

/// Returns the normalized character, or `None` if it is invisible, white space or a control character.
fn visible_char(c: char) -> Option<char> {
    if c.is_whitespace() || c.is_control() { None } else { folded(c) }
}

/// Returns the plain form of a character: in lower case, and as ASCII if it is another form of an ASCII
/// character. Returns `None` if it is invisible.
fn folded(c: char) -> Option<char> {
    let plain = match c {
        // Full width.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        '\u{fe64}' | '\u{2329}' | '\u{3008}' | '\u{27e8}' | '\u{276e}' | '\u{2770}' | '\u{1438}' | '\u{2c2}' => '<',
        '\u{fe65}' | '\u{232a}' | '\u{3009}' | '\u{27e9}' | '\u{276f}' | '\u{2771}' | '\u{1433}' | '\u{2c3}' => '>',
        '\u{2044}' | '\u{2215}' | '\u{2571}' | '\u{29f8}' | '\u{27cb}' => '/',
        c if is_ignorable(c) => return None,
        c => c,
    };
    Some(plain.to_ascii_lowercase())
}

/// Returns `true` if the character is invisible. Source: `Default_Ignorable_Code_Point` of Unicode 16.
const fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

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
    fn a_closing_tag_is_broken_however_it_is_spelled() {
        for (text, defused) in [
            ("a</data>b", "a‹/data>b"),
            ("</DATA >", "‹/DATA >"),
            ("< / da\nta x=1>", "‹ / da\nta x=1>"),
            ("<\u{200b}/data>", "‹\u{200b}/data>"),
            ("<\u{2066}/\u{fe0f}da\u{34f}ta>", "‹\u{2066}/\u{fe0f}da\u{34f}ta>"),
            ("\u{ff1c}/data\u{ff1e}", "‹/data\u{ff1e}"),
            ("<\u{2215}ｄａｔａ>", "‹\u{2215}ｄａｔａ>"),
            ("<</data></data", "<‹/data>‹/data"),
            ("<data> </dat> </ dada>", "<data> </dat> </ dada>"),
            ("", ""),
        ] {
            assert_eq!(defuse(text, "\n</data>\n"), defused);
        }
    }

    #[test]
    fn any_delimiter_can_be_broken() {
        assert_eq!(defuse("a\"\"\"\"b", "\"\"\""), "a‹‹\"\"b");
        assert_eq!(defuse("a‹b", "‹"), "a\u{fffd}b");
        assert_eq!(defuse("a b", " \n"), "a b", "a blank delimiter has no occurrences");
        assert_eq!(defuse("a>b", ">"), "a‹b");
    }

    #[test]
    fn much_white_space_takes_no_time() {
        let text = "</da".to_owned() + &"< \u{200b}".repeat(200_000) + &" ".repeat(1_000_000);
        assert_eq!(defuse(&text, "</data>"), text);
    }

    #[test]
    fn a_long_delimiter_that_nearly_occurs_everywhere_takes_no_time() {
        let (text, delimiter) = ("a".repeat(400_000), "a".repeat(100_000) + "b");
        assert_eq!(defuse(&text, &delimiter), text);
        assert_eq!(defuse(&delimiter, &delimiter), "‹".to_owned() + &delimiter[1..]);
    }

    proptest! {
        #[test]
        fn no_delimiter_is_left(
            text in "[<>/aA \n‹\u{fffd}\u{ff1c}\u{2066}\u{2215}]{0,40}",
            delimiter in "[<>/a ‹\u{fffd}]{1,4}",
        ) {
            let defused = defuse(&text, &delimiter);
            let squeezed: String = visible(&defused).collect();
            let sought: String = sought(&delimiter).into_iter().collect();
            prop_assert!(sought.is_empty() || !squeezed.contains(&sought), "{defused:?}");
            prop_assert_eq!(defused.chars().count(), text.chars().count());
        }
    }

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
