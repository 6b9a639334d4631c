//! The values of replies: names are compared in one spelling, and numbers may have any spelling.

use std::borrow::Cow;

use tower_chat_history_core::json::{self, Member, Object};

use super::TooLarge;

/// The largest number of members of an object that is read, and of calls and list elements with an `index` in a reply.
pub(super) const MAX_PARTS: usize = 1_024;

/// Reads an object. Returns `None` for a value that is not an object.
pub(super) fn object(json: &str) -> Result<Option<Object<'_>>, TooLarge> {
    match Object::read(json) {
        Some(object) if object.members().len() > MAX_PARTS => Err(TooLarge),
        object => Ok(object),
    }
}

/// Returns the members of an object in order, with the last value of each name. Each name is escaped as by
/// `serde_json`, without its quotes. A name that is not valid Unicode is returned as it is written.
pub(super) fn members<'a>(object: &Object<'a>) -> impl Iterator<Item = (Cow<'a, str>, &'a str)> {
    object.last_members().into_iter().map(|member| (escaped_name(member), member.value.get()))
}

fn escaped_name<'a>(member: &Member<'a>) -> Cow<'a, str> {
    if json::has_escapes(member.quoted) && !member.name.contains(char::REPLACEMENT_CHARACTER) {
        return Cow::Owned(unquoted(&json::quoted(&member.name)).to_owned());
    }
    Cow::Borrowed(unquoted(member.quoted))
}

/// Returns the escaped text of a string, without its quotes. Returns an empty text for other values.
pub(super) fn unquoted(json: &str) -> &str {
    json.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default()
}

/// Returns the text of a member, unless it is empty.
pub(super) fn text(object: &Object<'_>, name: &str) -> Option<String> {
    object.text(name).filter(|text| !text.is_empty()).map(Cow::into_owned)
}

/// Returns a non-negative whole number in any spelling: `0`, `0.0` and `"0"` are the same.
pub(super) fn number(json: &str) -> Option<u64> {
    /// Up to this number (2 to the power of 53), every whole number has an exact floating-point value.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    json.parse().ok().or_else(|| {
        let number: f64 = json.parse().ok()?;
        // The cast is exact, because only whole numbers in range are cast.
        (number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number)).then_some(number as u64)
    })
}

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

    fn read(json: &str) -> Vec<(String, String)> {
        let object = object(json).ok().flatten().unwrap();
        members(&object).map(|(name, value)| (name.into_owned(), value.to_owned())).collect()
    }

    #[test]
    fn members_keep_their_order_and_may_have_any_names() {
        let json = r#" {"b": 1.50,"\u0061":[ ],"\ud83d":"\ud83d","q\"":{}} "#;
        let expected = [("b", "1.50"), ("a", "[ ]"), (r"\ud83d", r#""\ud83d""#), (r#"q\""#, "{}")];
        assert_eq!(read(json), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        let expected = [("b", "2"), ("a", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), expected);
        let many: String = (0..20).map(|at| format!("\"{at}\":0,")).collect();
        assert_eq!(read(&format!("{{{many}{}\"end\":0}}", many.replace(":0", ":1"))).len(), 21);
    }

    #[test]
    fn other_values_than_objects_have_no_members() {
        for json in ["", "null", "[]", "\"{\"", "1", "{", "{]"] {
            assert!(object(json).ok().flatten().is_none(), "{json}");
        }
    }

    #[test]
    fn an_object_with_too_many_members_is_refused() {
        let members: Vec<String> = (0..=MAX_PARTS).map(|at| format!("\"{at}\":0")).collect();
        assert!(object(&format!("{{{}}}", members.join(","))).is_err());
        assert!(object(&format!("{{{}}}", members[1..].join(","))).is_ok());
    }

    #[test]
    fn numbers_are_read_in_any_spelling() {
        for (json, expected) in [
            ("0", Some(0)),
            ("0.0", Some(0)),
            ("\"7\"", Some(7)),
            ("1e2", Some(100)),
            ("4000000000", Some(4_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-1", None),
            ("0.5", None),
            ("1e300", None),
            ("null", None),
            ("\"nan\"", None),
        ] {
            assert_eq!(number(json), expected, "{json}");
        }
    }

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
