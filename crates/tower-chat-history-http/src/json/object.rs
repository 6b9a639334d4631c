//! Objects as lists of their members.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Name;

/// The members of an object, in order.
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads an object. Returns `None` if the text is something else.
    pub(crate) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Returns a value. If a name occurs twice, the last member counts. Null counts as no value.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let member = self.0.iter().rfind(|(own, _)| own == name);
        member.map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    /// Returns the JSON of a value, as [`raw`](Self::raw) does.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.raw(name).map(RawValue::get)
    }

    /// Returns the text of a value that is a string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        super::text(self.get(name))
    }

    /// Returns the value of a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        super::number(self.get(name))
    }

    /// Returns the value of a name as an object.
    pub(crate) fn object(&self, name: &str) -> Option<Object<'a>> {
        Self::read(self.get(name)?)
    }

    /// Returns the members, in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.0.iter().map(|(name, value)| (&**name, value.get()))
    }
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
        let mut members = Vec::new();
        while let Some((Name(name), value)) = map.next_entry::<_, &'de RawValue>()? {
            members.push((name, value));
        }
        Ok(Object(members))
    }
}
