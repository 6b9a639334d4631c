//! A block of a streamed reply, from its pieces.

use tower_chat_history_core::json::{self, Object};

use crate::adapt::completion::without_half_pair;

/// A block of the content.
pub(super) struct Block {
    /// The type.
    pub(super) kind: String,
    /// `true` if its end has come.
    pub(super) is_finished: bool,
    /// The JSON of the block as it began.
    begun: String,
    /// The members with their pieces. `None` if there are no pieces.
    members: Option<Members>,
    /// The pieces of the input of a call, as text of a JSON string.
    input: String,
}

type Members = Vec<(String, Value)>;

/// The overhead of a value in memory, in bytes, in addition to its text.
const VALUE_OVERHEAD: usize = 64;

/// Returns an upper bound for the size of a JSON value in memory, in bytes.
pub(super) fn size_of(json: &[u8]) -> usize {
    let values = 1 + json.iter().filter(|byte| **byte == b',').count();
    VALUE_OVERHEAD.saturating_mul(values).saturating_add(json.len())
}

/// A value to which pieces may be joined.
enum Value {
    /// A value that is neither a text nor a list, as JSON.
    Other(String),
    /// A text as it is escaped, without its quotes.
    Text(String),
    /// The entries of a list, as JSON.
    List(Vec<String>),
}

impl Block {
    /// Creates the block that begins so. Returns `None` if this is not an object.
    pub(super) fn begin(json: &str) -> Option<Self> {
        let kind = Object::read(json)?.string("type").unwrap_or_default();
        Some(Self { kind, is_finished: false, begun: json.to_owned(), members: None, input: String::new() })
    }

    /// Joins a delta. Unknown deltas have members with the names of those that they extend, as the known ones do.
    /// Returns an upper bound for the bytes that the block grows by.
    pub(super) fn join(&mut self, delta: &Object<'_>) -> usize {
        let mut added = 0;
        for member in delta.members().iter().filter(|member| member.name != "type") {
            let json = member.value.get();
            added += match (&*member.name, Value::new(json)) {
                ("partial_json", Value::Text(piece)) => {
                    self.input.push_str(&piece);
                    piece.len()
                }
                ("citation", _) => join(self.joined(), "citations", Value::List(vec![json.to_owned()])),
                (name, piece) => join(self.joined(), name, piece),
            };
        }
        added
    }

    /// Returns `true` for a text that is not empty.
    pub(super) fn has_text(&self) -> bool {
        let text = |members: &Members| {
            let text = members.iter().rfind(|(name, _)| name == "text");
            text.is_some_and(|(_, value)| matches!(value, Value::Text(text) if !without_half_pair(text).is_empty()))
        };
        self.kind == "text" && self.members.as_ref().map_or_else(|| text(&read(&self.begun)), text)
    }

    /// Returns the text of a member.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let Some(members) = &self.members else { return Object::read(&self.begun)?.string(name) };
        match members.iter().rfind(|(own, _)| own == name)? {
            (_, Value::Text(text)) => serde_json::from_str(&format!("\"{text}\"")).ok(),
            _ => None,
        }
    }

    /// Writes the block as JSON.
    pub(super) fn write(&self, json: &mut String) {
        let input = self.input();
        let begun = match (&self.members, &input) {
            (None, None) => return json.push_str(&self.begun),
            (None, Some(_)) => read(&self.begun),
            (Some(_), _) => Vec::new(),
        };
        let members = self.members.as_ref().unwrap_or(&begun);
        let mut members: Vec<(&str, &Value)> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
        if let Some(input) = &input {
            match members.iter_mut().rfind(|(name, _)| *name == "input") {
                Some((_, value)) => *value = input,
                None => members.push(("input", input)),
            }
        }
        json.push('{');
        for (position, (name, value)) in members.into_iter().enumerate() {
            if position > 0 {
                json.push(',');
            }
            json.push_str(&json::quoted(name));
            json.push(':');
            match value {
                Value::Text(text) if !self.is_finished => json.extend(["\"", without_half_pair(text), "\""]),
                value => value.write(json),
            }
        }
        json.push('}');
    }

    /// Returns the members, to which pieces can be joined.
    fn joined(&mut self) -> &mut Members {
        self.members.get_or_insert_with(|| read(&self.begun))
    }

    /// Returns the input that came in pieces. A model can break off within its input, or write an input that is no
    /// JSON. The API takes only objects, so such an input is wrapped in one, under the name that the provider's
    /// documentation proposes for the results of such calls. No text is lost, and the model sees that it was no JSON.
    fn input(&self) -> Option<Value> {
        let text: Option<String> = serde_json::from_str(&format!("\"{}\"", self.input)).ok();
        let text = text.as_deref().map(str::trim);
        if text == Some("") {
            return None;
        }
        let whole = text.filter(|text| Object::read(text).is_some());
        Some(Value::Other(match whole {
            Some(text) => text.to_owned(),
            None => format!(r#"{{"INVALID_JSON":"{}"}}"#, self.input),
        }))
    }
}

/// Returns the members of the JSON of an object.
fn read(json: &str) -> Members {
    let object = Object::read(json);
    let members = object.iter().flat_map(Object::members);
    members.map(|member| (member.name.to_string(), Value::new(member.value.get()))).collect()
}

/// Joins a piece to the member with this name. Texts and lists are appended. Of other values, the last one counts.
/// Returns an upper bound for the bytes that are added.
fn join(members: &mut Members, name: &str, piece: Value) -> usize {
    let size = piece.size();
    let Some((_, value)) = members.iter_mut().rfind(|(own, _)| own == name) else {
        members.push((name.to_owned(), piece));
        return size + VALUE_OVERHEAD + name.len();
    };
    match (value, piece) {
        (_, piece) if piece.is_null() => return 0,
        (Value::Text(text), Value::Text(piece)) => {
            text.push_str(&piece);
            return piece.len();
        }
        (Value::List(list), Value::List(pieces)) => list.extend(pieces),
        (value, piece) => *value = piece,
    }
    size
}

impl Value {
    fn new(json: &str) -> Self {
        if let Some(text) = json.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            return Self::Text(text.to_owned());
        }
        match json::entries(json) {
            Some(entries) => Self::List(entries.into_iter().map(str::to_owned).collect()),
            None => Self::Other(json.to_owned()),
        }
    }

    /// Returns an upper bound for the size in memory, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Other(json) | Self::Text(json) => VALUE_OVERHEAD + json.len(),
            Self::List(entries) => entries.iter().map(|json| VALUE_OVERHEAD + json.len()).sum(),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Other(json) if json == "null")
    }

    fn write(&self, json: &mut String) {
        match self {
            Self::Other(value) => json.push_str(value),
            Self::Text(text) => json.extend(["\"", text, "\""]),
            Self::List(entries) => json.extend(["[", &entries.join(","), "]"]),
        }
    }
}
