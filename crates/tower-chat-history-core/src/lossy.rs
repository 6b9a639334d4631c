//! JSON strings, including those that are not Unicode: `"\ud83d"` is legal JSON, and JavaScript clients send it.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use serde_json::value::RawValue;

/// Decodes a JSON string. `json` must be one valid JSON value. Returns `None` if the value is not a string. Lone
/// surrogates become U+FFFD.
///
/// Only strings with surrogates are passed to serde_json. The others are decoded here without checks, because they were
/// checked when the message was read. The texts of a window are decoded with each call, and this halves the time that
/// the layer adds to a call.
pub(crate) fn text(json: &str) -> Option<Cow<'_, str>> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    let Some(first) = next_escape(text) else { return Some(Cow::Borrowed(text)) };
    match unescaped(text, first) {
        Some(text) => Some(Cow::Owned(text)),
        None => serde_json::from_str::<Lossy<'_>>(json).ok().map(|text| text.0),
    }
}

/// Returns `true` if a JSON string has escapes. Otherwise its text is what is between the quotes.
pub(crate) fn has_escapes(json: &str) -> bool {
    next_escape(json).is_some()
}

/// Returns the byte at which the first escape begins.
fn next_escape(text: &str) -> Option<usize> {
    memchr::memchr(b'\\', text.as_bytes())
}

/// Decodes the escapes in the text. The first one is at byte `first`. Returns `None` if one of them is a surrogate.
fn unescaped(text: &str, first: usize) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let (mut rest, mut next) = (text, Some(first));
    while let Some(at) = next {
        plain.push_str(&rest[..at]);
        let (decoded, len) = match rest.as_bytes().get(at + 1)? {
            b'n' => ('\n', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'b' => ('\u{8}', 2),
            b'f' => ('\u{c}', 2),
            b'u' => {
                let code = u32::from_str_radix(rest.get(at + 2..at + 6)?, 16).ok()?;
                (char::from_u32(code)?, 6)
            }
            plain => (char::from(*plain), 2),
        };
        plain.push(decoded);
        rest = rest.get(at + len..)?;
        next = next_escape(rest);
    }
    plain.push_str(rest);
    Some(plain)
}

/// A JSON string whose lone surrogates are read as U+FFFD.
pub(crate) struct Lossy<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Lossy<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read as bytes, because serde_json then passes lone surrogates on instead of refusing them.
        deserializer.deserialize_bytes(Bytes).map(Self)
    }
}

/// Returns the JSON of the fields of an object, by name. If a field occurs twice, the last one counts. Lone surrogates
/// in names become U+FFFD. Returns an error if the JSON is not an object.
pub(crate) fn fields(json: &str) -> serde_json::Result<BTreeMap<String, &RawValue>> {
    let fields: BTreeMap<Name, &RawValue> = serde_json::from_str(json)?;
    Ok(fields.into_iter().map(|(Name(name), value)| (name, value)).collect())
}

/// The name of a field. Unlike a `String`, it can be read if it has lone surrogates.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Lossy::deserialize(deserializer)?.0.into_owned()))
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_serde(json: &str) -> Option<Cow<'_, str>> {
        serde_json::from_str::<Lossy<'_>>(json).ok().map(|text| text.0)
    }

    proptest! {
        #[test]
        fn decodes_as_serde_json_does(
            pieces in prop::collection::vec(prop_oneof![
                "[^\"\\\\\\x00-\\x1f]{0,4}",
                prop::sample::select(vec![r"\n", r"\t", r"\r", r"\b", r"\f", r"\/", r"\\", "\\\"", r"\u0041", r"\u00e4", r"\u0000", r"\ud83d", r"\ude00", r"\ud83d\ude00", r"\uFFFF"]).prop_map(str::to_owned),
            ], 0..12),
        ) {
            let json = format!("\"{}\"", pieces.concat());
            prop_assert_eq!(text(&json), by_serde(&json));
        }
    }
}
