//! Texts that break off within a character.

/// Returns the text of a JSON string without an escaped half of a character (a high surrogate) at its end. `escaped` is
/// the text as it is escaped, without its quotes.
///
/// Some providers send the two halves of a character in two pieces. A text that breaks off between them is not valid
/// Unicode, and many parsers refuse it.
#[must_use]
pub fn without_half_pair(escaped: &str) -> &str {
    let split = escaped.len().checked_sub(6).and_then(|at| escaped.split_at_checked(at));
    let Some((front, last)) = split else { return escaped };
    let is_half = matches!(last.as_bytes(), [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
    let backslashes = front.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if is_half && backslashes % 2 == 0 { front } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_escaped_first_half_at_the_end_is_left_out() {
        for (text, left) in [
            (r"a\ud83d", "a"),
            (r"\\\uDBFF", r"\\"),
            (r"a\\ud83d", r"a\\ud83d"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\ud83d ", r"\ud83d "),
            (r"ä\ud7ff", r"ä\ud7ff"),
            ("", ""),
        ] {
            assert_eq!(without_half_pair(text), left, "{text}");
        }
    }
}
