//! Reading JSON without changing it: members stay in order, names are compared in one spelling, and numbers may have
//! any spelling.

use std::{borrow::Cow, collections::HashSet};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::TooLarge;

/// The largest number of members of an object that is read, and of calls and list elements with an `index` in a reply.
pub(super) const MAX_PARTS: usize = 1_024;

/// An object's members in order. Each name is escaped as by `serde_json`, without its quotes.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Reads an object's members. If a name is repeated, its last value is used. Returns `None` for a value that is
    /// not an object.
    pub(super) fn of(json: &'a str) -> Result<Option<Self>, TooLarge> {
        // This check also saves the time that `serde_json` would need to read a large array or string.
        if !json.trim_ascii_start().starts_with('{') {
            return Ok(None);
        }
        let Ok(InOrder(members)) = serde_json::from_str(json) else { return Ok(None) };
        let members: Vec<_> = members.into_iter().map(|(name, value)| (normalized(name), value.get())).collect();
        if members.len() > MAX_PARTS { Err(TooLarge) } else { Ok(Some(Self(without_repeated(members)))) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// Returns the value of a member, unless it is null.
    pub(super) fn some(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|json| *json != "null")
    }

    /// Returns the text of a member, unless it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        text(self.get(name)?)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl<'a> IntoIterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a str);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Removes each member whose name is repeated later.
fn without_repeated<'a>(mut members: Vec<(Cow<'a, str>, &'a str)>) -> Vec<(Cow<'a, str>, &'a str)> {
    /// Up to this number of members, comparing all pairs is faster than a hash set.
    const MAX_COMPARED: usize = 16;
    let last: Vec<bool> = if members.len() <= MAX_COMPARED {
        let is_last = |at: usize| members[at + 1..].iter().all(|(name, _)| *name != members[at].0);
        if (0..members.len()).all(is_last) {
            return members;
        }
        (0..members.len()).map(is_last).collect()
    } else {
        let mut names = HashSet::with_capacity(members.len());
        let mut last: Vec<bool> = members.iter().rev().map(|(name, _)| names.insert(name.as_ref())).collect();
        last.reverse();
        last
    };
    let mut last = last.into_iter();
    members.retain(|_| last.next().unwrap_or(true));
    members
}

/// Returns a name in the spelling in which names are compared. A name that is not valid Unicode is returned as it is
/// written.
fn normalized(name: &RawValue) -> Cow<'_, str> {
    let quoted = name.get();
    let plain = quoted.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(quoted);
    if !plain.contains('\\') {
        return Cow::Borrowed(plain);
    }
    let decoded: Result<String, _> = serde_json::from_str(quoted);
    decoded.map_or(Cow::Borrowed(plain), |name| Cow::Owned(escaped(&name)))
}

/// Returns a text escaped as in JSON, without quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut quoted = serde_json::Value::from(text).to_string();
    quoted.pop();
    quoted.drain(..1.min(quoted.len()));
    quoted
}

/// Returns the elements of an array, or `None` for any other value.
pub(super) fn elements(json: &str) -> Option<Vec<&str>> {
    if !json.trim_ascii_start().starts_with('[') {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// Returns the text of a string, unless it is empty or not valid Unicode.
pub(super) fn text(json: &str) -> Option<String> {
    serde_json::from_str::<String>(json).ok().filter(|text| !text.is_empty())
}

/// Returns a non-negative whole number in any spelling: `0`, `0.0` and `"0"` are the same.
pub(super) fn number(json: &str) -> Option<u64> {
    /// Up to this number (2 to the power of 53), every whole number has an exact floating-point value.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    json.parse().ok().or_else(|| {
        let number: f64 = json.parse().ok()?;
        // The cast is exact, because only whole numbers in range are cast.
        (number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number)).then_some(number as u64)
    })
}

struct InOrder<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for InOrder<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = InOrder<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(InOrder(members))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<(String, String)> {
        let members = Members::of(json).ok().flatten().unwrap();
        members.into_iter().map(|(name, value)| (name.into_owned(), value.to_owned())).collect()
    }

    #[test]
    fn members_keep_their_order_and_may_have_any_names() {
        let json = r#" {"b": 1.50,"\u0061":[ ],"\ud83d":"\ud83d","q\"":{}} "#;
        let expected = [("b", "1.50"), ("a", "[ ]"), (r"\ud83d", r#""\ud83d""#), (r#"q\""#, "{}")];
        assert_eq!(read(json), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn the_last_of_repeated_members_counts() {
        let expected = [("b", "2"), ("a", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), expected);
        let many: String = (0..20).map(|at| format!("\"{at}\":0,")).collect();
        assert_eq!(read(&format!("{{{many}{}\"end\":0}}", many.replace(":0", ":1"))).len(), 21);
    }

    #[test]
    fn other_values_than_objects_have_no_members() {
        for json in ["", "null", "[]", "\"{\"", "1", "{", "{]"] {
            assert!(Members::of(json).ok().flatten().is_none(), "{json}");
        }
    }

    #[test]
    fn an_object_with_too_many_members_is_refused() {
        let members: Vec<String> = (0..=MAX_PARTS).map(|at| format!("\"{at}\":0")).collect();
        assert!(Members::of(&format!("{{{}}}", members.join(","))).is_err());
        assert!(Members::of(&format!("{{{}}}", members[1..].join(","))).is_ok());
    }

    #[test]
    fn numbers_are_read_in_any_spelling() {
        for (json, expected) in [
            ("0", Some(0)),
            ("0.0", Some(0)),
            ("\"7\"", Some(7)),
            ("1e2", Some(100)),
            ("4000000000", Some(4_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-1", None),
            ("0.5", None),
            ("1e300", None),
            ("null", None),
            ("\"nan\"", None),
        ] {
            assert_eq!(number(json), expected, "{json}");
        }
    }

    #[test]
    fn deep_values_are_read_without_recursion() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep)[0].1.len(), 200_000);
    }
}
