//! Reading JSON as it stands: members in order, names in one spelling, numbers in any.

use std::{borrow::Cow, collections::HashSet};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::TooLarge;

/// The largest number of members that an object may have to be taken apart, and of calls and numbered list elements
/// that a reply may have.
pub(super) const MAX_PARTS: usize = 1_024;

/// An object's members in order. Each name is escaped as `serde_json` escapes it, without its quotes.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// Takes an object apart. Of a member that stands twice, the last one counts. `None` for anything but an object.
    pub(super) fn of(json: &'a str) -> Result<Option<Self>, TooLarge> {
        // The check also keeps `serde_json` from looking at a large array or text for nothing.
        if !json.trim_ascii_start().starts_with('{') {
            return Ok(None);
        }
        let Ok(InOrder(members)) = serde_json::from_str(json) else { return Ok(None) };
        let members: Vec<_> = members.into_iter().map(|(name, value)| (spelled(name), value.get())).collect();
        if members.len() > MAX_PARTS { Err(TooLarge) } else { Ok(Some(Self(without_repeated(members)))) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// A member that is there and not null.
    pub(super) fn some(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|json| *json != "null")
    }

    /// A member's text, unless it is empty.
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

/// Drops each member that stands there again.
fn without_repeated<'a>(mut members: Vec<(Cow<'a, str>, &'a str)>) -> Vec<(Cow<'a, str>, &'a str)> {
    /// Up to so many members, comparing all is the fastest way.
    const FEW: usize = 16;
    let last: Vec<bool> = if members.len() <= FEW {
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

/// The name in the one spelling that names are compared in. One that is no Unicode keeps its own.
fn spelled(name: &RawValue) -> Cow<'_, str> {
    let quoted = name.get();
    let plain = quoted.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(quoted);
    if !plain.contains('\\') {
        return Cow::Borrowed(plain);
    }
    let decoded: Result<String, _> = serde_json::from_str(quoted);
    decoded.map_or(Cow::Borrowed(plain), |name| Cow::Owned(escaped(&name)))
}

/// A text as JSON has it between its quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut quoted = serde_json::Value::from(text).to_string();
    quoted.pop();
    quoted.drain(..1.min(quoted.len()));
    quoted
}

/// The elements of an array. `None` for anything else.
pub(super) fn elements(json: &str) -> Option<Vec<&str>> {
    if !json.trim_ascii_start().starts_with('[') {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// A value's text, unless it is empty or no Unicode.
pub(super) fn text(json: &str) -> Option<String> {
    serde_json::from_str::<String>(json).ok().filter(|text| !text.is_empty())
}

/// A whole number that is not negative, however it is written: `0`, `0.0` and `"0"` are one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Only whole numbers in range are cast.
pub(super) fn number(json: &str) -> Option<u64> {
    /// Up to here a floating-point number is exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    json.parse().ok().or_else(|| {
        let number: f64 = json.parse().ok()?;
        (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
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
    fn members_are_read_in_order_whatever_their_names() {
        let json = r#" {"b": 1.50,"\u0061":[ ],"\ud83d":"\ud83d","q\"":{}} "#;
        let expected = [("b", "1.50"), ("a", "[ ]"), (r"\ud83d", r#""\ud83d""#), (r#"q\""#, "{}")];
        assert_eq!(read(json), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn of_a_repeated_member_the_last_one_counts() {
        let expected = [("b", "2"), ("a", "3")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), expected);
        let many: String = (0..20).map(|at| format!("\"{at}\":0,")).collect();
        assert_eq!(read(&format!("{{{many}{}\"end\":0}}", many.replace(":0", ":1"))).len(), 21);
    }

    #[test]
    fn what_is_no_object_has_no_members() {
        for json in ["", "null", "[]", "\"{\"", "1", "{", "{]"] {
            assert!(Members::of(json).ok().flatten().is_none(), "{json}");
        }
    }

    #[test]
    fn an_object_of_very_many_members_is_too_large() {
        let members: Vec<String> = (0..=MAX_PARTS).map(|at| format!("\"{at}\":0")).collect();
        assert!(Members::of(&format!("{{{}}}", members.join(","))).is_err());
        assert!(Members::of(&format!("{{{}}}", members[1..].join(","))).is_ok());
    }

    #[test]
    fn a_number_is_read_however_it_is_written() {
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
    fn deep_values_are_not_entered() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep)[0].1.len(), 200_000);
    }
}
