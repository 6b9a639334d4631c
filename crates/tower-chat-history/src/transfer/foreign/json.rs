//! Messages whose JSON does not depend on the build.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tower_chat_history_core::{Message, nested};

/// A value that is written with its fields in alphabetical order. The order that `serde_json` uses depends on features
/// that other crates enable. The ids of imported exchanges depend on the text, so the order must always be the same.
struct Sorted<'a>(&'a Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let sorted: BTreeMap<_, _> = fields.iter().map(|(name, value)| (name, Sorted(value))).collect();
                serializer.collect_map(sorted)
            }
            Value::Array(values) => serializer.collect_seq(values.iter().map(Sorted)),
            value => value.serialize(serializer),
        }
    }
}

/// Returns the JSON of a value, or `None` if it has too many levels.
pub(super) fn text(value: &Value) -> Option<String> {
    nested::to_string(&Sorted(value)).ok()
}

/// Returns the message of chat completions with these fields, or `None` if it is not a valid one.
pub(super) fn message(value: &Value) -> Option<Message> {
    Message::from_json(text(value)?).ok()
}
