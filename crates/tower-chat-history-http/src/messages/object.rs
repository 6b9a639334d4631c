//! JSON objects as lists of their members. Values are not read, so deep ones take no recursion.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members of an object, in order.
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Object<'a> {
    /// Reads an object. Returns `None` if the text is something else.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns the JSON of a value. If a name occurs twice, the last member counts. Null counts as no value.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        let member = self.0.iter().rfind(|(own, _)| own == name);
        member.map(|(_, value)| *value).filter(|value| *value != "null")
    }

    /// Returns the text of a value that is a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Returns the value of a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Returns the value of a name as an object.
    pub(super) fn object(&self, name: &str) -> Option<Object<'a>> {
        Self::read(self.get(name)?)
    }

    /// Returns the members, in order.
    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

/// Returns the entries of a list, as JSON. Returns `None` if it is not a list.
pub(super) fn entries(json: &str) -> Option<Vec<&str>> {
    // serde_json would write a long text into its error.
    if !json.trim_start().starts_with('[') {
        return None;
    }
    let entries: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(entries.into_iter().map(RawValue::get).collect())
}

/// Returns `true` if the text is JSON.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        #[derive(Deserialize)]
        struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

        let mut members = Vec::new();
        while let Some((Name(name), value)) = map.next_entry::<_, &'de RawValue>()? {
            members.push((name, value.get()));
        }
        Ok(Object(members))
    }
}
