//! Reading JSON without changing it. Values are not read, so deep ones take no recursion.

mod members;
mod object;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::value::RawValue;

pub(crate) use self::{members::Members, object::Object};

/// The bytes that some programs write before a text.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the text of a string. The JSON must be valid.
pub(crate) fn text(json: Option<&str>) -> Option<String> {
    let json = json?;
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    // Without escapes, the text is what is between the quotes.
    if text.contains('\\') { serde_json::from_str(json).ok() } else { Some(text.to_owned()) }
}

/// Returns the value of a whole number.
pub(crate) fn number(json: Option<&str>) -> Option<u64> {
    json?.parse().ok()
}

/// Returns the value of a finite number. A string is never parsed as one, because its JSON has quotes.
pub(crate) fn finite(json: Option<&str>) -> Option<f64> {
    json?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Returns the entries of a list, as JSON. Returns `None` if it is not a list.
pub(crate) fn entries(json: &str) -> Option<Vec<&str>> {
    Some(values(json)?.into_iter().map(RawValue::get).collect())
}

/// Returns the values of a list. Returns `None` if it is not a list.
pub(crate) fn values(json: &str) -> Option<Vec<&RawValue>> {
    // serde_json would write a long text into its error.
    if !json.trim_start().starts_with('[') {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// Returns `true` if the text is JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The name of a member. Names that are not Unicode, such as `"\ud83d"`, are legal JSON. Their surrogates are replaced,
/// so that they do not make the object unreadable.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json passes bytes on without a check, but checks a raw value: control characters must be escaped.
        let json = <&RawValue>::deserialize(deserializer)?.get();
        match json.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(name) if !name.contains('\\') => Ok(Name(Cow::Borrowed(name))),
            _ => Ok(Name(Cow::Owned(serde_json::from_str::<Decoded>(json).map_err(D::Error::custom)?.0))),
        }
    }
}

/// A decoded string. Its surrogates are replaced.
struct Decoded(String);

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Decoded;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Decoded, E> {
                Ok(Decoded(String::from_utf8_lossy(name).into_owned()))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_unicode_do_not_make_an_object_unreadable() {
        for name in [r"\ud83d", r"\ude00\ud83d", r"a\udc00"] {
            let json = format!(r#"{{"{name}":1,"\u0061":2,"b\n":3}}"#);
            let object = Object::read(&json).unwrap();
            assert_eq!((object.number("a"), object.number("b\n"), object.members().count()), (Some(2), Some(3), 3));
            let members = Members::read(&json, ["a", "b\n", name]).unwrap();
            assert_eq!(members.values, [Some("2"), Some("3"), None], "{name}");
        }
    }

    #[test]
    fn an_object_with_a_control_character_in_a_name_is_no_json() {
        for name in ["a\nb", "\0", "\u{1f}", "\n\\u0061", "\\n\n", "\\x", "\\u00"] {
            let json = format!(r#"{{"{name}":1,"c":2}}"#);
            assert!(!is_json(&json), "{name:?}");
            assert!(Object::read(&json).is_none(), "{name:?}");
            assert!(Members::read(&json, ["c"]).is_err(), "{name:?}");
        }
    }

    #[test]
    fn numbers_are_read_only_from_numbers() {
        assert_eq!(
            [Some("0.7"), Some("1e-1"), Some("1e999"), Some("\"1\""), None].map(finite),
            [Some(0.7), Some(0.1), None, None, None]
        );
        assert_eq!([Some("7"), Some("-1"), Some("\"7\""), Some("7.0")].map(number), [Some(7), None, None, None]);
    }
}
