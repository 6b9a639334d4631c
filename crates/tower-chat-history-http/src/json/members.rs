//! Some members of an object. All other values are skipped.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Name;

/// The members of an object with `N` names.
#[derive(Debug, PartialEq)]
pub(crate) struct Members<'a, const N: usize> {
    /// The JSON of each member. `None` if it is null, or if there is no such member. Of a repeated member, the last
    /// value counts.
    pub(crate) values: [Option<&'a str>; N],
    /// The same, also of those that are null.
    pub(crate) written: [Option<&'a str>; N],
    /// True for each member that is repeated.
    pub(crate) repeated: [bool; N],
}

impl<'a, const N: usize> Members<'a, N> {
    /// Reads the members with these names.
    pub(crate) fn read(json: &'a str, names: [&str; N]) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let mut members = Named(names).deserialize(&mut deserializer)?;
        deserializer.end()?;
        members.values = members.written.map(|value| value.filter(|json| *json != "null"));
        Ok(members)
    }
}

struct Named<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Named<'_, N> {
    type Value = Members<'de, N>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Named<'_, N> {
    type Value = Members<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Members { values: [None; N], written: [None; N], repeated: [false; N] };
        while let Some((Name(name), value)) = map.next_entry::<_, &'de RawValue>()? {
            if let Some(at) = self.0.iter().position(|own| *own == name) {
                members.repeated[at] = members.written[at].replace(value.get()).is_some();
            }
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_repeated_members_counts() {
        let json = r#"{"a":1,"\u0062": [ 2 ] ,"a":null,"b":3,"d":{"c":4}}"#;
        let (values, written) = ([None, Some("3"), None], [Some("null"), Some("3"), None]);
        let expected = Members { values, written, repeated: [true, true, false] };
        assert_eq!(Members::read(json, ["a", "b", "c"]).unwrap(), expected);
    }

    #[test]
    fn other_values_than_objects_have_no_members() {
        for json in ["", "[]", "null", "{", "{}x", "\"a\""] {
            assert!(Members::read(json, ["a"]).is_err(), "{json}");
        }
    }

    #[test]
    fn deep_values_are_read_without_recursion() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let json = format!(r#"{{"a":{deep},"b":{deep}}}"#);
        assert_eq!(Members::read(&json, ["a"]).unwrap().values, [Some(deep.as_str())]);
    }
}
