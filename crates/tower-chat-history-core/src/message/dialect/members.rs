//! The members of a JSON object, with their places in its text. A change of one member leaves the other bytes as they
//! are written.

use std::{borrow::Cow, ops::Range};

use super::scan;
use crate::{lossy, message::MessageError};

/// The members of an object, in order. Their values are not read, so deep values take no recursion.
pub(super) struct Members<'a> {
    json: &'a str,
    /// The names and values. The values are borrowed from the object's JSON.
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Members<'a> {
    /// Reads the members of a valid JSON value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not an object.
    pub(super) fn read(json: &'a str) -> Result<Self, MessageError> {
        let members = scan::members(json).ok_or(MessageError::new("it is not an object"))?;
        Ok(Self { json, members: members.collect() })
    }

    /// Returns the JSON of a value. If a name occurs twice, the last member counts. Null counts as no value.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.last(name).filter(|value| *value != "null")
    }

    /// Returns the text of a value that is a string.
    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        lossy::text(self.get(name)?)
    }

    /// Returns the text of a value that is a string, or `None` if there is no value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not a string.
    pub(super) fn text_if_any(&self, name: &str) -> Result<Option<Cow<'a, str>>, MessageError> {
        let Some(json) = self.get(name) else { return Ok(None) };
        lossy::text(json).map(Some).ok_or(MessageError::new("a member is not a string"))
    }

    /// Returns the text of a value that is a string, or the JSON of another value. It is empty if there is no value.
    pub(super) fn text_or_json(&self, name: &str) -> Cow<'a, str> {
        let json = self.get(name).unwrap_or_default();
        lossy::text(json).unwrap_or(Cow::Borrowed(json))
    }

    /// Returns the entries of a value that is a list, as JSON. Returns `None` if it is not a list.
    pub(super) fn entries(&self, name: &str) -> Option<Vec<&'a str>> {
        entries(self.get(name)?)
    }

    /// Returns the object with another value of this member. If the name occurs twice, the last one is changed. If
    /// there is none, it is added at the end. `value` is JSON.
    pub(super) fn with(&self, name: &str, value: &str) -> String {
        if let Some(old) = self.last(name) {
            let Range { start, end } = self.place(old);
            return [&self.json[..start], value, &self.json[end..]].concat();
        }
        let comma = if self.members.is_empty() { "" } else { "," };
        let object = self.json.trim_end().strip_suffix('}').unwrap_or(self.json);
        format!("{object}{comma}{}:{value}}}", quoted(name))
    }

    /// Returns the object without all members of this name. White space between the other ones is left out.
    pub(super) fn without(&self, name: &str) -> String {
        let (mut kept, mut end) = (Vec::new(), 0);
        for (own, value) in &self.members {
            let place = self.place(value);
            let start = self.json[end..place.start].find('"').map_or(place.start, |len| end + len);
            end = place.end;
            if own != name {
                kept.push(&self.json[start..end]);
            }
        }
        format!("{{{}}}", kept.join(","))
    }

    fn last(&self, name: &str) -> Option<&'a str> {
        self.members.iter().rfind(|(own, _)| own == name).map(|(_, value)| *value)
    }

    /// Returns the range of a value in the object's JSON.
    fn place(&self, value: &str) -> Range<usize> {
        let start = value.as_ptr().addr() - self.json.as_ptr().addr();
        start..start + value.len()
    }
}

/// Returns the entries of a list, as JSON. Returns `None` if it is not a list.
pub(super) fn entries(list: &str) -> Option<Vec<&str>> {
    scan::entries(list).map(Iterator::collect)
}

/// Returns the JSON of a text.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{ "a" : 1.50 , "b":"\u00e4,\"", "\ud83d":1, "a":null ,"c":[{}] }"#;

    #[test]
    fn a_changed_member_leaves_the_other_bytes() {
        let members = Members::read(JSON).unwrap();
        assert_eq!(members.with("b", "[2]"), JSON.replace(r#""\u00e4,\"""#, "[2]"));
        assert_eq!(members.with("a", "2"), JSON.replace("null", "2"));
        assert_eq!(members.with("d", "2"), JSON.replace(" }", r#" ,"d":2}"#));
        assert_eq!(Members::read("{ }").unwrap().with("d", "2"), r#"{ "d":2}"#);
    }

    #[test]
    fn a_member_is_removed_as_often_as_it_occurs() {
        let members = Members::read(JSON).unwrap();
        assert_eq!(members.without("a"), r#"{"b":"\u00e4,\"","\ud83d":1,"c":[{}]}"#);
        assert_eq!(Members::read(r#"{"a":1}"#).unwrap().without("a"), "{}");
    }

    #[test]
    fn the_last_member_of_a_name_counts_and_null_is_no_value() {
        let members = Members::read(JSON).unwrap();
        assert_eq!((members.get("a"), members.get("d")), (None, None));
        assert_eq!(members.text("b").as_deref(), Some("ä,\""));
        assert_eq!((members.text("c"), members.text_or_json("c").as_ref()), (None, "[{}]"));
        assert_eq!(members.text_if_any("b").unwrap().as_deref(), Some("ä,\""));
        assert!(members.text_if_any("a").is_ok_and(|text| text.is_none()) && members.text_if_any("c").is_err());
        assert_eq!((members.entries("c"), members.entries("b")), (Some(vec!["{}"]), None));
        for json in ["[]", "1", "null", "\"a\"", "{"] {
            assert!(Members::read(json).is_err(), "{json}");
        }
    }
}
