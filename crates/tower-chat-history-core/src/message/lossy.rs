//! JSON strings, also those that are no Unicode: `"\ud83d"` is legal JSON, and clients written in JavaScript send it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// Decodes a JSON string; lone surrogates become U+FFFD. `None` if the JSON is no string.
pub(super) fn text(json: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Lossy<'_>>(json).ok().map(|text| text.0)
}

/// A JSON string whose lone surrogates read as U+FFFD.
pub(super) struct Lossy<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Lossy<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As bytes, since serde_json then hands lone surrogates on instead of refusing them.
        deserializer.deserialize_bytes(Bytes).map(Self)
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
