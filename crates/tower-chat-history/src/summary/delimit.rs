//! Texts within delimiters that they do not repeat.

use std::{borrow::Cow, collections::VecDeque};

/// What takes the place of a delimiter's first character: the first of them that the delimiter does not have itself, so that
/// none can come about anew.
const STAND_INS: [char; 3] = ['\u{2039}', '\u{fffd}', '?'];

/// The text with every occurrence of the delimiter broken: the first character is another one. `</data>` becomes `‹/data>`.
///
/// Models read loosely, so this does: case, white space and characters that are not seen do not matter, nor what comes
/// between a tag's name and its end; and full-width and other forms of `<`, `>` and `/` count as these. No list of such
/// forms is complete, so a delimiter that no text can close has a [mark](super::mark). A blank delimiter does not
/// occur.
pub(super) fn defuse<'a>(text: &'a str, delimiter: &str) -> Cow<'a, str> {
    let sought = sought(delimiter);
    let stand_in = STAND_INS.into_iter().find(|c| !sought.contains(c)).unwrap_or('_');
    let mut defused = String::new();
    let mut copied = 0;
    for at in occurrences(text, &sought) {
        defused.push_str(&text[copied..at]);
        defused.push(stand_in);
        copied = at + text[at..].chars().next().map_or(0, char::len_utf8);
    }
    if defused.is_empty() {
        return Cow::Borrowed(text);
    }
    defused.push_str(&text[copied..]);
    Cow::Owned(defused)
}

/// Where what is looked for begins in the text, also where two of them overlap. The time is that of one walk over both
/// (the algorithm of Knuth, Morris and Pratt).
fn occurrences(text: &str, sought: &[char]) -> Vec<usize> {
    if sought.is_empty() {
        return Vec::new();
    }
    let shorter = shorter(sought);
    let (mut found, mut matched) = (Vec::new(), 0);
    // Where the last characters stand that were seen, as many as are looked for.
    let mut places = VecDeque::with_capacity(sought.len());
    for (at, c) in text.char_indices() {
        let Some(c) = visible_char(c) else { continue };
        if places.len() == sought.len() {
            places.pop_front();
        }
        places.push_back(at);
        matched = next(sought, &shorter, matched, c);
        if matched == sought.len() {
            found.extend(places.front());
            matched = shorter[matched - 1];
        }
    }
    found
}

/// For each length of a beginning: the length of the longest shorter beginning that it ends with.
fn shorter(sought: &[char]) -> Vec<usize> {
    let (mut shorter, mut matched) = (vec![0], 0);
    for c in &sought[1..] {
        matched = next(sought, &shorter, matched, *c);
        shorter.push(matched);
    }
    shorter
}

/// How much of a beginning is there with one character more. Less than all of it was there before.
fn next(sought: &[char], shorter: &[usize], mut matched: usize, c: char) -> usize {
    while sought[matched] != c {
        if matched == 0 {
            return 0;
        }
        matched = shorter[matched - 1];
    }
    matched + 1
}

/// What is looked for: the delimiter as it is compared, of a tag all but its end.
fn sought(delimiter: &str) -> Vec<char> {
    let delimiter = delimiter.trim();
    visible(if delimiter.starts_with('<') { delimiter.trim_end_matches('>') } else { delimiter }).collect()
}

fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter_map(visible_char)
}

/// The character as it is compared, if it is seen.
fn visible_char(c: char) -> Option<char> {
    if c.is_whitespace() || c.is_control() { None } else { folded(c) }
}

/// The character in its plain form, if it has any form: in lower case, and of ASCII where it is another form of that.
pub(super) fn folded(c: char) -> Option<char> {
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

/// Returns whether nothing is shown for the character. Source: `Default_Ignorable_Code_Point` of Unicode 16.
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
        assert_eq!(defuse("a b", " \n"), "a b", "a blank one is none");
        assert_eq!(defuse("a>b", ">"), "a‹b");
    }

    #[test]
    fn white_space_without_end_takes_no_time() {
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
        fn none_is_left(
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
}
