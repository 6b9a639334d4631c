//! Messages as JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::{Value, value::RawValue};

use super::{ChatCompletions, Message, MessageError};
use crate::nested;

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `RawValue` is the only type that serde_json writes verbatim. It checks the text.
        let json: &RawValue = serde_json::from_str(self.json()).map_err(S::Error::custom)?;
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Reads the message verbatim. This works only with `serde_json`, like `RawValue`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json: Box<RawValue> = Box::deserialize(deserializer)?;
        Self::in_dialect_unchecked(&ChatCompletions, json.into()).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<Value> for Message {
    type Error = MessageError;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        let message = Self::from_serialize(&value);
        // The value may have any number of levels.
        nested::dismantle(value);
        message
    }
}
