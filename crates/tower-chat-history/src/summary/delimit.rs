//! Texts within delimiters that they cannot close.

use std::borrow::Cow;

/// What takes the place of a delimiter's first character: the first of them that the delimiter does not have itself, so that
/// none can come about anew.
const STAND_INS: [char; 3] = ['\u{2039}', '\u{fffd}', '?'];

/// The text with every occurrence of the delimiter broken: the first character is another one. `</data>` becomes `‹/data>`.
///
/// Models read loosely, so this does: case, white space and characters that are not seen do not matter, nor what comes
/// between a tag's name and its end. A blank delimiter does not occur.
pub(super) fn defuse<'a>(text: &'a str, delimiter: &str) -> Cow<'a, str> {
    let sought = sought(delimiter);
    let Some(first) = sought.first() else { return Cow::Borrowed(text) };
    let stand_in = STAND_INS.into_iter().find(|c| !sought.contains(c)).unwrap_or('_');
    let mut defused = String::new();
    let mut copied = 0;
    for (at, c) in text.char_indices() {
        // Most characters are decided here.
        if visible_char(c) != Some(*first) || !starts_with(&text[at..], &sought) {
            continue;
        }
        defused.push_str(&text[copied..at]);
        defused.push(stand_in);
        copied = at + c.len_utf8();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    defused.push_str(&text[copied..]);
    Cow::Owned(defused)
}

/// What is looked for: the delimiter as it is compared, of a tag all but its end.
fn sought(delimiter: &str) -> Vec<char> {
    let delimiter = delimiter.trim();
    visible(if delimiter.starts_with('<') { delimiter.trim_end_matches('>') } else { delimiter }).collect()
}

fn starts_with(text: &str, sought: &[char]) -> bool {
    let mut found = visible(text);
    sought.iter().all(|c| found.next() == Some(*c))
}

fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter_map(visible_char)
}

/// The character as it is compared, if it is seen.
fn visible_char(c: char) -> Option<char> {
    let unseen = c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    if unseen { None } else { Some(c.to_ascii_lowercase()) }
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
        assert_eq!(defuse("a b", " \n"), "a b", "a blank one is none");
        assert_eq!(defuse("a>b", ">"), "a‹b");
    }

    #[test]
    fn white_space_without_end_takes_no_time() {
        let text = "</da".to_owned() + &"< \u{200b}".repeat(200_000) + &" ".repeat(1_000_000);
        assert_eq!(defuse(&text, "</data>"), text);
    }

    proptest! {
        #[test]
        fn none_is_left(text in "[<>/aA \n‹\u{fffd}]{0,40}", delimiter in "[<>/a ‹\u{fffd}]{1,4}") {
            let defused = defuse(&text, &delimiter);
            let squeezed: String = visible(&defused).collect();
            let sought: String = sought(&delimiter).into_iter().collect();
            prop_assert!(sought.is_empty() || !squeezed.contains(&sought), "{defused:?}");
            prop_assert_eq!(defused.chars().count(), text.chars().count());
        }
    }
}
