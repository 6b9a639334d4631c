//! Putting a message together from its deltas, without knowing its fields.
//!
//! What comes in one piece is kept byte for byte. What comes in several is joined by its kind:
//!
//! - text is appended to text (`content`, `refusal`, `reasoning_content`, a call's arguments, anything unknown), in its
//!   escaped form, so that a character whose halves come apart is whole again;
//! - texts that name something (`role`, `type`, `id`, `name`, `format`, `model`, `provider`) are replaced: providers repeat
//!   them, none sends them in parts;
//! - objects are joined field by field; lists are appended, where elements with an `index` join the one that has it;
//! - null changes nothing; of everything else the last one counts.
//!
//! Unknown text is appended because the other choice would lose it if it does come in parts.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// Texts that come whole, as often as they come.
const WHOLE: [&str; 8] = ["role", "type", "id", "name", "format", "model", "provider", "index"];

/// How deep values are joined; below that the last one counts. No provider nests so deep, and recursion must end.
const MAX_DEPTH: usize = 16;

/// A JSON value that may still grow.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// Verbatim: anything but text.
    Raw(String),
    /// A text as it is escaped, without its quotes.
    Text(String),
    Object(Fields),
    List(Vec<Node>),
}

/// The fields of an object, in the order in which they came first.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Fields(pub(super) Vec<(String, Node)>);

impl Node {
    pub(super) fn new(json: &str) -> Self {
        match json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Raw(json.to_owned()),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Raw(raw) if raw == "null")
    }

    /// Joins a later piece, which stands under that name.
    fn join(&mut self, name: &str, json: &str, depth: usize) {
        let piece = Self::new(json);
        if piece.is_null() {
            return;
        }
        if self.is_null() || depth >= MAX_DEPTH {
            *self = piece;
            return;
        }
        self.expand();
        match (&mut *self, piece) {
            (Self::Text(text), Self::Text(piece)) if WHOLE.contains(&name) => {
                if !piece.is_empty() {
                    *text = piece;
                }
            }
            (Self::Text(text), Self::Text(piece)) => text.push_str(&piece),
            // Content that changes between text and parts, which one provider streams: an empty text says nothing.
            (_, Self::Text(piece)) if piece.is_empty() => {}
            (Self::Object(fields), Self::Raw(_)) if json.starts_with('{') => fields.join(json, depth + 1),
            (Self::List(list), Self::Raw(_)) if json.starts_with('[') => append(list, json, depth + 1),
            (Self::List(list), Self::Text(piece)) if name == "content" => list.push(part(piece)),
            (Self::Text(text), Self::Raw(_)) if name == "content" && json.starts_with('[') && !text.is_empty() => {
                let mut list = vec![part(std::mem::take(text))];
                append(&mut list, json, depth + 1);
                *self = Self::List(list);
            }
            (_, piece) => *self = piece,
        }
    }

    /// Makes verbatim JSON something to join to.
    fn expand(&mut self) {
        let Self::Raw(json) = self else { return };
        if json.starts_with('{') {
            let mut fields = Fields::default();
            fields.join(json, MAX_DEPTH);
            *self = Self::Object(fields);
        } else if json.starts_with('[') {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            *self = Self::List(elements.iter().map(|element| Self::new(element.get())).collect());
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Raw(json) => out.push_str(json),
            Self::Text(text) => out.extend(["\"", text, "\""]),
            Self::Object(fields) => {
                out.push('{');
                fields.write(out, |_| true);
                out.push('}');
            }
            Self::List(list) => {
                out.push('[');
                for (at, node) in list.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    node.write(out);
                }
                out.push(']');
            }
        }
    }
}

impl Fields {
    /// Joins the fields of an object. What is no object changes nothing.
    pub(super) fn join(&mut self, json: &str, depth: usize) {
        self.join_but(json, depth, |_| false);
    }

    /// Joins all fields but those to be left out.
    pub(super) fn join_but(&mut self, json: &str, depth: usize, but: impl Fn(&str) -> bool) {
        let members = serde_json::from_str::<Members<'_>>(json).map_or_else(|_| Vec::new(), |members| members.0);
        for (name, value) in members.into_iter().filter(|(name, _)| !but(name)) {
            match self.get_mut(&name) {
                Some(node) => node.join(&name, value.get(), depth),
                None => self.0.push((name, Node::new(value.get()))),
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, node)| node)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|(other, _)| other == name).map(|(_, node)| node)
    }

    /// The text of a field as it is escaped; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Some(Node::Text(text)) => text,
            _ => "",
        }
    }

    /// Writes the fields that are asked for, separated, behind what is there already.
    pub(super) fn write(&self, out: &mut String, wanted: impl Fn(&str) -> bool) {
        for (name, node) in self.0.iter().filter(|(name, _)| wanted(name)) {
            if !out.ends_with('{') {
                out.push(',');
            }
            out.push_str(&serde_json::Value::from(name.as_str()).to_string());
            out.push(':');
            node.write(out);
        }
    }
}

fn part(text: String) -> Node {
    let kind = ("type".to_owned(), Node::Text("text".to_owned()));
    Node::Object(Fields(vec![kind, ("text".to_owned(), Node::Text(text))]))
}

fn append(list: &mut Vec<Node>, json: &str, depth: usize) {
    let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
    for element in elements {
        let index = index_of(element.get());
        let same = list.iter_mut().find(|node| index.is_some() && node.index() == index);
        match same {
            Some(node) => node.join("", element.get(), depth),
            None => list.push(Node::new(element.get())),
        }
    }
}

impl Node {
    fn index(&self) -> Option<u64> {
        match self {
            Self::Raw(json) => index_of(json),
            Self::Object(fields) => match fields.get("index") {
                Some(Self::Raw(index)) => index.parse().ok(),
                _ => None,
            },
            Self::Text(_) | Self::List(_) => None,
        }
    }
}

/// The `index` of an object, if it is one and has it.
pub(super) fn index_of(json: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Indexed {
        index: Option<u64>,
    }
    serde_json::from_str::<Indexed>(json).ok()?.index
}

/// An object's members in order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut fields = Fields::default();
        pieces.iter().for_each(|piece| fields.join(piece, 0));
        let mut out = String::new();
        Node::Object(fields).write(&mut out);
        out
    }

    #[test]
    fn one_piece_is_kept_byte_for_byte() {
        let piece = r#"{"a": { "z":1.50, "b" : [ 1e3 ] },"c":"\u00e4\/","d":[ {"index":0} ]}"#;
        assert_eq!(joined(&[piece]), piece.replace("\"a\": {", "\"a\":{"));
    }

    #[test]
    fn text_grows_and_names_do_not() {
        assert_eq!(
            joined(&[r#"{"role":"assistant","x":"a"}"#, r#"{"role":"assistant","x":"b","id":""}"#, r#"{"x":null}"#]),
            r#"{"role":"assistant","x":"ab","id":""}"#
        );
        assert_eq!(joined(&[r#"{"x":"\ud83d"}"#, r#"{"x":"\ude00"}"#]), r#"{"x":"\ud83d\ude00"}"#);
        assert_eq!(joined(&[r#"{"x":null,"y":1}"#, r#"{"x":"a","y":2}"#]), r#"{"x":"a","y":2}"#);
    }

    #[test]
    fn lists_grow_and_elements_with_an_index_are_joined() {
        assert_eq!(
            joined(&[
                r#"{"r":[{"type":"t","text":"a","index":0}]}"#,
                r#"{"r":[{"type":"t","text":"b","index":0},{"index":1,"text":"c"}]}"#,
            ]),
            r#"{"r":[{"type":"t","text":"ab","index":0},{"index":1,"text":"c"}]}"#
        );
        assert_eq!(joined(&[r#"{"r":[1]}"#, r#"{"r":[ 2.0]}"#]), r#"{"r":[1,2.0]}"#);
    }

    #[test]
    fn content_may_change_between_text_and_parts() {
        assert_eq!(
            joined(&[r#"{"content":""}"#, r#"{"content":[{"type":"thinking"}]}"#, r#"{"content":"a"}"#]),
            r#"{"content":[{"type":"thinking"},{"type":"text","text":"a"}]}"#
        );
    }

    #[test]
    fn deep_values_end() {
        let deep = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(1000), "}".repeat(1000));
        assert!(joined(&[&deep, &deep]).len() >= deep.len());
    }
}
