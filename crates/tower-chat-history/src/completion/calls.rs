//! Assembling tool calls from their pieces.

use std::borrow::Cow;

use tower_chat_history_core::json::{self, Object};

use super::{
    TooLarge,
    members::{MAX_PARTS, members, number, object, unquoted},
    node::{Fields, Node},
};

/// The calls of a reply, ordered by index. Calls with the same index, or without one, are in the order of arrival.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Clone, Debug, Default)]
struct Call {
    index: u64,
    /// The call's id, escaped. It is a copy of the one in `fields`, for faster comparisons.
    id: String,
    /// The call's name, escaped.
    name: String,
    /// The number of the last chunk that contained the name.
    named_in: u64,
    arguments: Arguments,
    fields: Fields,
}

/// The parts of a piece that decide to which call it belongs. Texts are escaped.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    /// The function's arguments as JSON, if there are any.
    arguments: Option<&'a str>,
}

impl Calls {
    /// Adds the `tool_calls` of a delta. `chunk` is the number of the delta's chunk. Returns `Ok(false)` if the value
    /// is neither a list, nor a call, nor null.
    pub(super) fn push(&mut self, json: &str, chunk: u64) -> Result<bool, TooLarge> {
        if json.starts_with('{') {
            self.push_call(json, chunk)?;
        } else if let Some(calls) = json::entries(json) {
            calls.into_iter().try_for_each(|call| self.push_call(call, chunk))?;
        } else {
            return Ok(json == "null");
        }
        Ok(true)
    }

    fn push_call(&mut self, json: &str, chunk: u64) -> Result<(), TooLarge> {
        let Some(object) = object(json)? else { return Ok(()) };
        let piece = Piece::of(&object)?;
        let at = match self.find(&piece, chunk) {
            Some(at) => at,
            None if self.0.len() >= MAX_PARTS => return Err(TooLarge),
            None => {
                let index = piece.index.unwrap_or_else(|| self.0.last().map_or(0, |last| last.index));
                let at = self.0.partition_point(|call| call.index <= index);
                self.0.insert(at, Call { index, ..Call::default() });
                at
            }
        };

        let call = &mut self.0[at];
        if !piece.id.is_empty() {
            piece.id.clone_into(&mut call.id);
        }
        if !piece.name.is_empty() {
            piece.name.clone_into(&mut call.name);
            call.named_in = chunk;
        }
        if let Some(arguments) = piece.arguments {
            call.arguments.push(arguments);
        }

        // A stored call has no index, which is a part of the stream format only.
        let mut fields = members(&object).filter(|(name, _)| name != "index");
        fields.try_for_each(|(name, value)| call.fields.join_one(&name, value, 0))
    }

    /// Returns the position of the call to which a piece belongs, or `None` if the piece begins another call. The id
    /// and the index decide. If they do not suffice, the name and the arguments decide too, because some providers
    /// give all parallel calls the same index, and others give neither index nor id.
    fn find(&self, piece: &Piece<'_>, chunk: u64) -> Option<usize> {
        if !piece.id.is_empty() {
            let same = self.0.iter().rposition(|call| piece.may_be_of(call) && call.id == piece.id);
            if same.is_some() {
                return same;
            }
        }
        let at = self.0.iter().rposition(|call| piece.may_be_of(call))?;
        let call = &self.0[at];
        let other_id = !piece.id.is_empty() && !call.id.is_empty();
        (!other_id && !call.is_over_at(piece, chunk)).then_some(at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Call::is_void)
    }

    /// Writes the list of calls, each in the form that a unary response has.
    pub(super) fn write(&self, out: &mut String) {
        out.push('[');
        for (at, call) in self.0.iter().filter(|call| !call.is_void()).enumerate() {
            if at > 0 {
                out.push(',');
            }
            Node::Object(call.completed()).write(out);
        }
        out.push(']');
    }
}

impl<'a> Piece<'a> {
    fn of(call: &Object<'a>) -> Result<Self, TooLarge> {
        let function = call.get("function").map(object).transpose()?.flatten();
        let custom = call.get("custom").map(object).transpose()?.flatten();
        let name = [&function, &custom].into_iter().flatten().find_map(|called| called.get("name"));
        Ok(Self {
            index: call.get("index").and_then(number),
            id: call.get("id").map(unquoted).unwrap_or_default(),
            name: name.map(unquoted).unwrap_or_default(),
            arguments: function.and_then(|function| function.get("arguments")),
        })
    }

    /// Returns `true` if the piece has the index of this call, or none.
    fn may_be_of(&self, call: &Call) -> bool {
        self.index.is_none_or(|index| index == call.index)
    }
}

impl Call {
    /// Returns `true` if a piece that has a name begins another call. A repeated name alone does not begin one: some
    /// providers repeat the name in every piece. No provider splits a name.
    fn is_over_at(&self, piece: &Piece<'_>, chunk: u64) -> bool {
        if piece.name.is_empty() || self.name.is_empty() {
            return false;
        }
        let adds = piece.arguments.is_some_and(|arguments| arguments != "\"\"");
        self.named_in == chunk || self.name != piece.name || (adds && self.arguments.are_complete())
    }

    /// Returns `true` if the call has no fields except its type and index.
    fn is_void(&self) -> bool {
        self.fields.names().all(|name| matches!(name, "type" | "index"))
    }

    /// Returns the call's fields. A missing type and missing arguments are added.
    fn completed(&self) -> Fields {
        let mut call = self.fields.clone();
        for (tool, text) in [("function", "arguments"), ("custom", "input")] {
            if let Some(called) = call.object(tool)
                && called.get(text).is_none_or(Node::is_null)
            {
                called.set(text, Node::Text(String::new()));
            }
        }
        if call.text("type").is_empty() {
            let kind = if call.get("custom").is_some_and(|custom| !custom.is_null()) { "custom" } else { "function" };
            call.set("type", Node::Text(kind.to_owned()));
        }
        call
    }
}

/// The state of a function's arguments: it tracks the nesting of their JSON to know when it is complete.
#[derive(Clone, Copy, Debug, Default)]
struct Arguments {
    depth: u32,
    in_text: bool,
    after_backslash: bool,
    closed: bool,
}

impl Arguments {
    /// Adds a piece, given as a JSON value.
    fn push(&mut self, piece: &str) {
        if !piece.starts_with('"') {
            // Some providers send an object or a list instead of a string. It is never split.
            self.closed = true;
        } else if let Ok(text) = serde_json::from_str::<Cow<'_, str>>(piece) {
            text.bytes().for_each(|byte| self.push_byte(byte));
        }
    }

    const fn push_byte(&mut self, byte: u8) {
        if self.in_text {
            match byte {
                _ if self.after_backslash => self.after_backslash = false,
                b'\\' => self.after_backslash = true,
                b'"' => self.in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => self.in_text = true,
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                self.closed = false;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.closed = self.depth == 0;
            }
            _ => {}
        }
    }

    const fn are_complete(self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the id, the name and the arguments of each call that these chunks contain.
    fn calls(chunks: &[Value]) -> Vec<[String; 3]> {
        let mut calls = Calls::default();
        for (at, chunk) in chunks.iter().enumerate() {
            assert!(calls.push(&chunk.to_string(), at as u64 + 1).ok().unwrap());
        }
        let mut out = String::new();
        calls.write(&mut out);
        let calls: Vec<Value> = serde_json::from_str(&out).unwrap();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        calls
            .iter()
            .map(|call| {
                ["/id", "/function/name", "/function/arguments"]
                    .map(|at| call.pointer(at).map_or_else(String::new, text))
            })
            .collect()
    }

    fn function(name: &str, arguments: &str) -> Value {
        json!({"name": name, "arguments": arguments})
    }

    #[test]
    fn two_whole_calls_without_index_and_id_stay_two() {
        let (f, g) =
            (json!({"function": function("f", r#"{"a":1}"#)}), json!({"function": function("g", r#"{"b":2}"#)}));
        let expected = [["", "f", r#"{"a":1}"#], ["", "g", r#"{"b":2}"#]];
        assert_eq!(calls(&[json!([f, g])]), expected, "in one chunk");
        assert_eq!(calls(&[json!([f]), json!([g])]), expected, "in two");
        let again = [["", "f", r#"{"a":1}"#]; 2];
        assert_eq!(calls(&[json!([f, f])]), again, "of one name, in one chunk");
        assert_eq!(calls(&[json!([f]), json!([f])]), again, "of one name, in two");
        let bare = json!({"index": 0, "function": {"name": "now"}});
        assert_eq!(calls(&[json!([bare, bare])]), [["", "now", ""]; 2], "without arguments");
    }

    #[test]
    fn whole_calls_of_one_index_and_empty_ids_stay_two() {
        let call = |arguments: &str| json!([{"index": 0, "id": "", "function": function("f", arguments)}]);
        assert_eq!(
            calls(&[call(r#"{"a":1}"#), call(r#"{"a":2}"#)]),
            [["", "f", r#"{"a":1}"#], ["", "f", r#"{"a":2}"#]]
        );
    }

    #[test]
    fn a_name_that_is_repeated_in_every_piece_does_not_begin_another_call() {
        let piece = |arguments: &str| json!([{"index": 0, "function": function("f", arguments)}]);
        let pieces = ["", "{\"a\":\"}", "\\\"}", "\"}", ""].map(piece);
        assert_eq!(calls(&pieces), [["", "f", r#"{"a":"}\"}"}"#]]);
    }

    #[test]
    fn pieces_without_index_and_id_go_to_the_last_call() {
        let chunks = [
            json!([{"id": "x", "function": function("f", "{")}]),
            json!([{"function": {"arguments": "}"}}]),
            json!([{"id": "y", "function": function("g", "1")}]),
            json!([{"function": {"arguments": "2"}}]),
        ];
        assert_eq!(calls(&chunks), [["x", "f", "{}"], ["y", "g", "12"]]);
    }

    #[test]
    fn calls_are_in_the_order_of_their_index() {
        let call = |index: u64, id: &str| json!([{"index": index, "id": id, "function": function("f", "{}")}]);
        let ids = |chunks: &[Value]| calls(chunks).into_iter().map(|[id, ..]| id).collect::<Vec<_>>();
        assert_eq!(ids(&[call(4_000_000_000, "z"), call(1, "x"), call(1, "y")]), ["x", "y", "z"]);
    }

    #[test]
    fn a_late_id_belongs_to_its_call() {
        let chunks = [json!([{"index": 0, "function": function("f", "{}")}]), json!([{"index": 0, "id": "x"}])];
        assert_eq!(calls(&chunks), [["x", "f", "{}"]]);
    }

    #[test]
    fn arguments_that_are_not_strings_are_kept_unchanged() {
        let call = |at: u64| json!({"function": {"name": "f", "arguments": {"a": at}}});
        assert_eq!(calls(&[json!([call(1)]), json!([call(2)])]), [["", "f", r#"{"a":1}"#], ["", "f", r#"{"a":2}"#]]);
    }

    #[test]
    fn empty_entries_are_not_calls() {
        for nothing in
            [json!([null]), json!([{}]), json!([{"index": 0, "type": "function"}]), json!([1, "a"]), json!({})]
        {
            assert_eq!(calls(&[nothing]), [[""; 3]; 0]);
        }
        let mut none = Calls::default();
        assert!(none.push("[null]", 1).ok().unwrap() && none.is_empty());
        assert!(!none.push("\"call\"", 1).ok().unwrap());
    }

    #[test]
    fn too_many_calls_are_refused() {
        let mut calls = Calls::default();
        let all = (0..=MAX_PARTS as u64)
            .try_for_each(|index| calls.push(&json!([{"index": index, "id": "x"}]).to_string(), index + 1).map(drop));
        assert!(all.is_err());
    }
}
