//! The fields of a JSON object, in order and as they are written.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

/// The fields of a JSON object. Values keep their spelling, and fields keep their order.
pub(super) struct Fields<'a>(Vec<(String, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    /// Returns the fields of an object, or `None` if the text is not a JSON object.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Removes the fields with these names.
    pub(super) fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    /// Replaces the value of a field, if the object has this field. `value` is JSON.
    pub(super) fn with(mut self, name: &str, value: String) -> Self {
        if let Some((_, old)) = self.0.iter_mut().find(|(field, _)| field == name) {
            *old = Cow::Owned(value);
        }
        self
    }

    /// Returns the entries of a field that is a list, as JSON. They are empty if there is no such field.
    pub(super) fn entries(&self, name: &str) -> Vec<&str> {
        let list = self.0.iter().find(|(field, _)| field == name);
        let entries: Option<Vec<&RawValue>> = list.and_then(|(_, list)| serde_json::from_str(list).ok());
        entries.unwrap_or_default().into_iter().map(RawValue::get).collect()
    }

    /// Returns the JSON of the object.
    pub(super) fn json(&self) -> String {
        let fields: Vec<String> = self.0.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        format!("{{{}}}", fields.join(","))
    }
}

/// Returns the JSON of a text.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((name, Cow::Borrowed(value.get())));
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
