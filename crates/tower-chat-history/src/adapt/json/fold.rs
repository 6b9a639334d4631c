//! Folding a stream of JSON chunks into the reply.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json, map::Entry};
use tower_chat_history_core::{Usage, nested};

use super::reply;
use crate::{
    Reply,
    adapt::{Flow, FoldReply},
};

type Fields = Map<String, Value>;

/// Strings that are said once, or again in every piece, and never come in parts.
const WHOLE: [&str; 5] = ["role", "id", "type", "name", "format"];

/// Collects the first choice: every field of its deltas, and its tool calls, which may be interleaved.
#[derive(Debug)]
pub(super) struct JsonFold {
    /// How many choices must end.
    choices: usize,
    ended: BTreeSet<u64>,
    /// A chunk was an error: what follows is not the reply.
    failed: bool,
    message: Fields,
    /// By index, and in the order of arrival where a provider gives all the same index.
    calls: Vec<(u64, Fields)>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
}

impl JsonFold {
    pub(super) fn new(choices: usize) -> Self {
        Self {
            choices,
            ended: BTreeSet::new(),
            failed: false,
            message: Fields::new(),
            calls: Vec::new(),
            model: None,
            finish_reason: None,
            usage: None,
        }
    }

    fn push_choice(&mut self, choice: &Value) {
        self.failed |= is_error(choice);
        let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
        if let (0, Some(Value::Object(delta))) = (index, choice.get("delta")) {
            self.push_delta(delta);
        }
        if let Some(reason) = reply::text(choice, "finish_reason") {
            self.ended.insert(index);
            if index == 0 {
                self.finish_reason = Some(reason);
            }
        }
    }

    fn push_delta(&mut self, delta: &Fields) {
        for (name, piece) in delta {
            match piece {
                Value::Array(calls) if name == "tool_calls" => {
                    calls.iter().filter_map(Value::as_object).for_each(|piece| self.push_call(piece));
                }
                _ if name == "tool_calls" => {}
                piece => merge(&mut self.message, name, piece),
            }
        }
    }

    fn push_call(&mut self, piece: &Fields) {
        let index = piece.get("index").and_then(Value::as_u64).unwrap_or(0);
        let id = id(piece);
        // Some compatible providers number every parallel call 0: another id is then another call.
        let same = |(at, call): &(u64, Fields)| {
            *at == index && (id.is_empty() || self::id(call).is_empty() || self::id(call) == id)
        };
        let at = self.calls.iter().rposition(same).unwrap_or_else(|| {
            let at = self.calls.partition_point(|(at, _)| *at <= index);
            self.calls.insert(at, (index, Fields::new()));
            at
        });
        let (_, call) = &mut self.calls[at];
        // The index belongs to the stream: a message to be sent has none.
        piece.iter().filter(|(name, _)| *name != "index").for_each(|(name, piece)| merge(call, name, piece));
    }

    fn with_message(&self, mut fields: Fields) -> Reply {
        fields.entry("content").or_insert(Value::Null);
        let mut reply = Reply::default();
        reply.message = reply::as_message(fields);
        reply.model.clone_from(&self.model);
        reply.finish_reason.clone_from(&self.finish_reason);
        reply.usage = self.usage;
        reply
    }
}

/// Whether a chunk or a choice says that the provider failed while it was answering, as gateways do within a stream.
fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

fn id(call: &Fields) -> &str {
    call.get("id").and_then(Value::as_str).unwrap_or_default()
}

/// Adds a piece of a field to what has come of it before.
fn merge(fields: &mut Fields, name: &str, piece: &Value) {
    let mut field = match fields.entry(name) {
        Entry::Vacant(field) => {
            field.insert(piece.clone());
            return;
        }
        Entry::Occupied(field) => field,
    };
    match (field.get_mut(), piece) {
        // Null says that nothing comes, not that what came is void.
        (_, Value::Null) => {}
        (Value::String(text), Value::String(piece)) if WHOLE.contains(&name) => {
            if !piece.is_empty() {
                text.clone_from(piece);
            }
        }
        (Value::String(text), Value::String(piece)) => text.push_str(piece),
        (Value::Array(items), Value::Array(pieces)) => items.extend_from_slice(pieces),
        (Value::Object(known), Value::Object(pieces)) => {
            pieces.iter().for_each(|(name, piece)| merge(known, name, piece));
        }
        // Content that is text at one time and parts at another: all of it becomes parts.
        (Value::Array(items), Value::String(text)) if name == "content" => items.extend(text_part(text)),
        (before @ Value::String(_), Value::Array(pieces)) if name == "content" => {
            let said = before.as_str().and_then(text_part);
            *before = said.into_iter().chain(pieces.iter().cloned()).collect();
        }
        (before, piece) => *before = piece.clone(),
    }
}

fn text_part(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// A call as a unary response has it, also when no piece brought its type, or its function had no arguments.
fn whole_call(call: &Fields) -> Value {
    let mut call = call.clone();
    if let Some(Value::Object(function)) = call.get_mut("function") {
        if function.get("arguments").is_none_or(Value::is_null) {
            function.insert("arguments".to_owned(), "".into());
        }
        call.entry("type").or_insert_with(|| "function".into());
    }
    Value::Object(call)
}

impl FoldReply<Value> for JsonFold {
    fn push(&mut self, chunk: &Value) -> Flow {
        if chunk == "[DONE]" {
            return Flow::Hold;
        }
        if nested::is_too_deep(chunk) {
            self.failed = true;
            return Flow::Pass;
        }
        self.failed |= is_error(chunk);
        if self.model.is_none() {
            self.model = reply::text(chunk, "model");
        }
        self.usage = reply::usage(chunk).or(self.usage);
        for choice in chunk.get("choices").and_then(Value::as_array).into_iter().flatten() {
            self.push_choice(choice);
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        !self.failed && self.ended.len() >= self.choices.max(1)
    }

    fn is_whole(&self) -> bool {
        !self.failed && self.ended.contains(&0)
    }

    fn reply(&self) -> Reply {
        let mut fields = self.message.clone();
        if !self.calls.is_empty() {
            fields.insert("tool_calls".to_owned(), self.calls.iter().map(|(_, call)| whole_call(call)).collect());
        }
        self.with_message(fields)
    }

    fn partial(&self) -> Option<Reply> {
        let says = |field: &str| match self.message.get(field) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(parts)) => !parts.is_empty(),
            _ => false,
        };
        if !says("content") && !says("refusal") {
            return None;
        }
        // Of what has a structure, half may be missing; text is text wherever it ends.
        let is_text = |(name, value): &(&String, &Value)| value.is_string() || *name == "content";
        let text = self.message.iter().filter(is_text).map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut reply = self.with_message(text);
        reply.incomplete = true;
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(chunks: &[Value]) -> JsonFold {
        let mut fold = JsonFold::new(1);
        chunks.iter().for_each(|chunk| assert_eq!(fold.push(chunk), Flow::Pass));
        fold
    }

    fn delta(delta: &Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta}]})
    }

    fn message(fold: &JsonFold) -> Value {
        serde_json::from_str(fold.reply().message.unwrap().json()).unwrap()
    }

    #[test]
    fn unknown_fields_are_put_together() {
        let fold = folded(&[
            delta(&json!({"role": "assistant", "content": "", "reasoning_content": "Let "})),
            delta(&json!({"reasoning_content": "me", "content": null, "details": [{"n": 1}]})),
            delta(&json!({"content": "Hi", "details": [{"n": 2}], "audio": {"id": "a", "data": "x"}, "score": 1})),
            delta(&json!({"audio": {"id": "a", "data": "y"}, "score": 2})),
        ]);
        assert_eq!(
            message(&fold),
            json!({"role": "assistant", "content": "Hi", "reasoning_content": "Let me", "details": [{"n": 1}, {"n": 2}],
                "audio": {"id": "a", "data": "xy"}, "score": 2})
        );
    }

    #[test]
    fn calls_are_put_together_by_index_and_told_apart_by_id() {
        let call = |call: Value| delta(&json!({"tool_calls": [call]}));
        let fold = folded(&[
            call(json!({"index": 1, "id": "y", "type": "function", "function": {"name": "g", "arguments": "{"}})),
            call(
                json!({"index": 0, "id": "x", "function": {"name": "f", "arguments": null}, "extra": {"signature": "s"}}),
            ),
            call(json!({"index": 1, "function": {"name": "g", "arguments": "}"}})),
            call(json!({"index": 1, "id": "z", "function": {"name": "h", "arguments": "1"}})),
        ]);
        assert_eq!(
            message(&fold)["tool_calls"],
            json!([
                {"id": "x", "type": "function", "function": {"name": "f", "arguments": ""}, "extra": {"signature": "s"}},
                {"id": "y", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                {"id": "z", "type": "function", "function": {"name": "h", "arguments": "1"}},
            ])
        );
        assert_eq!(message(&fold)["content"], Value::Null);
        assert_eq!(fold.partial(), None);
    }

    #[test]
    fn content_may_be_text_and_parts() {
        let parts = delta(&json!({"content": [{"type": "thinking"}]}));
        let fold = folded(&[delta(&json!({"content": "a"})), parts, delta(&json!({"content": "b"}))]);
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(message(&fold)["content"], json!([text("a"), {"type": "thinking"}, text("b")]));
    }

    #[test]
    fn an_error_chunk_is_no_end() {
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}], "error": {"code": 502}});
        let fold = folded(&[delta(&json!({"content": "a"})), end]);
        assert!(!fold.is_complete() && !fold.is_whole());
        assert!(fold.partial().unwrap().incomplete);
    }

    #[test]
    fn a_partial_reply_is_its_text() {
        let pieces =
            json!({"content": "Let me", "reasoning_content": "Hm", "details": [{}], "tool_calls": [{"id": "x"}]});
        let partial = folded(&[delta(&pieces)]).partial().unwrap();
        let partial: Value = serde_json::from_str(partial.message.unwrap().json()).unwrap();
        assert_eq!(partial, json!({"role": "assistant", "content": "Let me", "reasoning_content": "Hm"}));
    }
}
