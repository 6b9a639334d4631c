//! The members of objects and the entries of lists in JSON that is known to be valid.
//!
//! A message is checked as JSON before a dialect reads it. After that, its values need no parser: it is enough to find
//! their ends, which takes less time. Values within members and entries are not read, so deep ones take no recursion.
//!
//! A text that is not JSON does not cause a panic, but may have members and entries.

use std::{borrow::Cow, iter};

use memchr::memchr2;

use crate::lossy;

/// Returns the names and values of an object, in order. The values are JSON. Lone surrogates in names become U+FFFD.
/// Returns `None` if the text is not an object.
pub(super) fn members(json: &str) -> Option<impl Iterator<Item = (Cow<'_, str>, &str)>> {
    let mut names_and_values = Values { rest: inside(json, '{', '}')? };
    Some(iter::from_fn(move || Some((lossy::text(names_and_values.next()?)?, names_and_values.next()?))))
}

/// Returns the entries of a list, as JSON. Returns `None` if the text is not a list.
pub(super) fn entries(json: &str) -> Option<impl Iterator<Item = &str>> {
    Some(Values { rest: inside(json, '[', ']')? })
}

fn inside(json: &str, opening: char, closing: char) -> Option<&str> {
    json.trim_ascii().strip_prefix(opening)?.strip_suffix(closing)
}

/// The values in the rest of a list or an object. The names of an object count as values, too.
struct Values<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let start = self.rest.bytes().position(|byte| !is_between_values(byte))?;
        let rest = &self.rest[start..];
        let (value, rest) = rest.split_at_checked(len_of_value(rest.as_bytes())?)?;
        self.rest = rest;
        Some(value)
    }
}

const fn is_between_values(byte: u8) -> bool {
    matches!(byte, b',' | b':' | b' ' | b'\n' | b'\r' | b'\t')
}

/// Returns the length of the value at the beginning of a text.
fn len_of_value(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' => len_of_string(text),
        b'{' | b'[' => len_of_nested(text),
        _ => Some(text.iter().position(|byte| is_between_values(*byte)).unwrap_or(text.len())),
    }
}

/// Returns the length of the string at the beginning of a text, with its quotes.
fn len_of_string(text: &[u8]) -> Option<usize> {
    let mut len = 1;
    loop {
        len += memchr2(b'"', b'\\', text.get(len..)?)?;
        if text[len] == b'"' {
            return Some(len + 1);
        }
        // The byte after a backslash does not end the string.
        len += 2;
    }
}

/// Returns the length of the list or object at the beginning of a text.
fn len_of_nested(text: &[u8]) -> Option<usize> {
    let (mut len, mut levels) = (0, 0);
    loop {
        match text.get(len)? {
            b'"' => {
                len += len_of_string(&text[len..])?;
                continue;
            }
            b'{' | b'[' => levels += 1,
            b'}' | b']' => levels -= 1,
            _ => {}
        }
        len += 1;
        if levels == 0 {
            return Some(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    /// A JSON value with all kinds of spaces, strings, numbers and nested values.
    fn json() -> impl Strategy<Value = String> {
        let space = || prop::sample::select(vec!["", " ", "\n\t", "\r\n "]);
        let scalar = prop_oneof![
            prop::sample::select(vec!["null", "true", "-1.5e+3", "0", r#""""#, r#""\\""#, r#""\"""#])
                .prop_map(str::to_owned),
            r#"("([a-c{}:, ä€\[\]]|\\[nrtbf"/\\]|\\u00e4|\\ud83d){0,8}")"#,
        ];
        scalar.prop_recursive(3, 24, 4, move |inner| {
            let entry = (space(), inner, space()).prop_map(|(before, json, after)| format!("{before}{json}{after}"));
            let name = prop::sample::select(vec!["a", "b", r"\u0061", r"\ud83d", "}", ",", r#"\""#]);
            let member = (space(), name, space(), entry.clone())
                .prop_map(|(a, name, b, json)| format!("{a}\"{name}\"{b}:{json}"));
            prop_oneof![
                prop::collection::vec(entry, 0..4).prop_map(|entries| format!("[{}]", entries.join(","))),
                prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_values_are_those_that_serde_json_reads(json in json(), space in "[ \n]{0,2}") {
            let json = format!("{space}{json}{space}");
            let found = entries(&json).map(Iterator::collect::<Vec<_>>);
            let expected: Option<Vec<&RawValue>> = serde_json::from_str(&json).ok();
            prop_assert_eq!(found, expected.map(|entries| entries.into_iter().map(RawValue::get).collect()));

            let found = members(&json).map(Iterator::collect::<BTreeMap<_, _>>);
            let expected = lossy::fields(&json).ok();
            let expected = expected.as_ref().map(|fields| fields.iter().map(|(name, value)| (name.into(), value.get())).collect());
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_text_that_is_no_json_is_no_panic(text in r#"[{\[]?["{}\[\]:,\\a1ä ]{0,12}[}\]]?"#) {
            let _ = entries(&text).map(Iterator::count);
            let _ = members(&text).map(Iterator::count);
        }
    }
}
