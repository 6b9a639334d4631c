//! A JSON object of the caller's own that belongs to an exchange.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;

use crate::{invalid::InvalidValue, memory::block};

/// The metadata of an exchange: a JSON object of the caller's own, such as ids of a user interface, feedback, or who
/// asked. The library never reads it and never sends it to a model.
///
/// It has at most [`MAX_BYTES`](Self::MAX_BYTES) bytes. It is kept byte for byte, with its white space, the order of its
/// keys, and any number of levels.
///
/// serde reads and writes it verbatim, but only with `serde_json`, because it is a `RawValue`. `Debug` shows the size.
///
/// ```
/// use serde_json::{Value, json};
/// use tower_chat_history_core::Metadata;
///
/// let metadata = Metadata::new(json!({"asked_by": "ann", "widget": 7}).to_string())?;
/// let read: Value = serde_json::from_str(metadata.json())?;
/// assert_eq!(read["asked_by"], "ann");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Metadata(Box<RawValue>);

impl Metadata {
    /// The maximum size, in bytes: 16 KiB.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Creates metadata from the text of a JSON object. White space around the object is dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not a JSON object, or if the object has more than
    /// [`MAX_BYTES`](Self::MAX_BYTES) bytes.
    pub fn new(json: impl Into<String>) -> Result<Self, InvalidValue> {
        // serde_json's error may quote the text, so it is dropped.
        let json = RawValue::from_string(json.into())
            .map_err(|error| InvalidValue::MalformedMetadata { line: error.line(), column: error.column() })?;
        Self::check(json)
    }

    fn check(json: Box<RawValue>) -> Result<Self, InvalidValue> {
        let bytes = json.get().len();
        if bytes > Self::MAX_BYTES {
            return Err(InvalidValue::LargeMetadata { bytes, max: Self::MAX_BYTES });
        }
        if !json.get().starts_with('{') {
            return Err(InvalidValue::MetadataNotAnObject);
        }
        Ok(Self(json))
    }

    /// Returns the text of the JSON object.
    #[must_use]
    pub fn json(&self) -> &str {
        self.0.get()
    }

    /// Returns an estimate of the memory beside the value itself, in bytes.
    pub(crate) fn memory(&self) -> usize {
        block(self.json().len())
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Metadata {}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metadata({} bytes)", self.json().len())
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::check(Box::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        exchange::{Exchange, ExchangeId, Recorded},
        message::{AnthropicMessages, Message},
        provenance::Origin,
        seq::Seq,
    };

    fn exchange(metadata: Metadata) -> Exchange {
        let mut exchange = Exchange::new(ExchangeId::new("e1").unwrap(), [Message::user("u"), Message::assistant("a")]);
        exchange.metadata = Some(metadata);
        exchange
    }

    /// Returns an object of this size.
    fn object_of(bytes: usize) -> String {
        format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 8))
    }

    fn white_space() -> impl Strategy<Value = String> {
        "[ \t\n\r]{0,2}"
    }

    fn text() -> impl Strategy<Value = String> {
        r#"([a-z ä😀{}\[\],:]|\\"|\\\\|\\n|\\u0000|\\ud800){0,6}"#.prop_map(|text| format!("\"{text}\""))
    }

    /// JSON objects with repeated keys, and with white space, numbers and escapes in any spelling.
    fn object() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![text(), "-?[1-9][0-9]{0,30}(\\.0{1,3})?([eE][+-]?[0-9]{1,3})?", "true|false|null"];
        let value = scalar.prop_recursive(4, 24, 4, |inner| {
            let list = (vec(inner.clone(), 0..4), white_space())
                .prop_map(|(values, space)| format!("[{space}{}]", values.join(&format!("{space},"))));
            prop_oneof![list, object_with(inner)]
        });
        object_with(value)
    }

    fn object_with(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        (vec((text(), value), 0..4), white_space()).prop_map(|(members, space)| {
            let members = members.iter().map(|(key, value)| format!("{space}{key}:{space}{value}"));
            format!("{{{}{space}}}", members.collect::<Vec<_>>().join(","))
        })
    }

    #[test]
    fn sixteen_kib_are_accepted_and_one_byte_more_is_refused() {
        let largest = object_of(16_384);
        assert_eq!(Metadata::new(largest.as_str()).unwrap().json(), largest);
        assert_eq!(Metadata::new(object_of(16_385)), Err(InvalidValue::LargeMetadata { bytes: 16_385, max: 16_384 }));
        let record = exchange(Metadata::new(largest.as_str()).unwrap()).encode().unwrap();
        assert!(Exchange::decode(&record).is_ok());
        assert!(Exchange::decode(&record.replace(&largest, &object_of(16_385))).is_err());
    }

    #[test]
    fn only_an_object_is_metadata() {
        for json in ["[]", "1", "\"{}\"", "null", "true"] {
            assert_eq!(Metadata::new(json), Err(InvalidValue::MetadataNotAnObject), "{json}");
        }
        for text in ["", "{", "{}{}", "{'a':1}", "{\"a\":1,}", "secret"] {
            let error = Metadata::new(text).unwrap_err();
            assert!(matches!(error, InvalidValue::MalformedMetadata { .. }), "{text}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert_eq!(Metadata::new(" {} \n").unwrap().json(), "{}");
    }

    #[test]
    fn debug_does_not_show_the_text() {
        let exchange = exchange(Metadata::new(r#"{"secret":1}"#).unwrap());
        let shown = format!("{exchange:?} {exchange:#?}");
        assert!(shown.contains("Metadata(12 bytes)") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn any_number_of_levels_is_stored() {
        let levels = 8_000;
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(levels), "]".repeat(levels));
        let exchange = exchange(Metadata::new(deep.as_str()).unwrap());
        let read = Exchange::decode(&exchange.encode().unwrap()).unwrap();
        assert_eq!(read.metadata.unwrap().json(), deep);
    }

    #[test]
    fn a_translation_keeps_metadata_and_encryption_hides_it() {
        let exchange = exchange(Metadata::new(r#"{ "a": 1 }"#).unwrap());
        let recorded = Recorded::new(Seq::FIRST, exchange.clone());
        let translated = recorded.translated(&AnthropicMessages, &Origin::unknown()).unwrap();
        assert_eq!(translated.exchange.metadata, exchange.metadata);
        assert_eq!(exchange.sealed_as("x".repeat(200)).unwrap().metadata, None);
    }

    #[test]
    fn memory_counts_metadata_and_the_size_of_messages_does_not() {
        let (small, large) =
            (exchange(Metadata::new("{}").unwrap()), exchange(Metadata::new(object_of(1_002)).unwrap()));
        assert_eq!(large.memory() - small.memory(), 1_000);
        assert_eq!(large.bytes(), small.bytes());
    }

    proptest! {
        #[test]
        fn any_object_comes_back_byte_for_byte(json in object()) {
            let metadata = Metadata::new(json.as_str()).unwrap();
            prop_assert_eq!(metadata.json(), &json);
            let exchange = exchange(metadata);
            let record = exchange.encode().unwrap();
            let read = Exchange::decode(&record).unwrap();
            prop_assert_eq!(read.metadata.as_ref().map(Metadata::json), Some(&*json));
            prop_assert_eq!(read.encode().unwrap(), record);
            prop_assert_eq!(read, exchange);
        }
    }
}
