//! A reply of a provider, whole and in pieces. The pieces are cut from the reply that must be stored. Nothing
//! is joined here.

use serde_json::{Map, Value, json};

use super::super::{Ingredient, Ingredients, words::nested};
use crate::rng::SeededRng;

/// One odd behavior of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oddity {
    None,
    /// A choice that was not requested ends before the first one.
    ForeignChoice,
    /// The only choice has another index than 0.
    OtherNumber,
    /// The reply has another role than `assistant`.
    ForeignRole,
    /// A call has no id, or is `null`.
    MissingId,
    /// Calls arrive whole, in one piece, without index and id.
    WholeCalls,
    /// Indexes are strings or fractions.
    OddIndex,
    /// A key occurs twice.
    RepeatedKey,
    /// The first bytes are a byte order mark.
    ByteOrderMark,
    /// A field is nested very deeply.
    DeepField,
    /// Usage numbers that no provider reports.
    HostileUsage,
}

impl Oddity {
    pub(super) fn any(rng: &mut SeededRng, ingredients: &Ingredients) -> Self {
        let kinds = [
            (Ingredient::ForeignChoices, Self::ForeignChoice),
            (Ingredient::ForeignChoices, Self::OtherNumber),
            (Ingredient::ForeignRoles, Self::ForeignRole),
            (Ingredient::MissingIds, Self::MissingId),
            (Ingredient::WholeCalls, Self::WholeCalls),
            (Ingredient::OddWire, Self::OddIndex),
            (Ingredient::OddWire, Self::RepeatedKey),
            (Ingredient::OddWire, Self::ByteOrderMark),
            (Ingredient::DeepJson, Self::DeepField),
            (Ingredient::HostileUsage, Self::HostileUsage),
        ];
        let mut there = vec![Self::None; 3];
        there.extend(kinds.into_iter().filter(|(one, _)| ingredients.has(*one)).map(|(_, oddity)| oddity));
        *rng.pick(&there)
    }
}

/// A reply.
#[derive(Clone, Debug)]
pub(super) struct ProviderReply {
    pub(super) message: Map<String, Value>,
    pub(super) oddity: Oddity,
    /// The number of choices in the request.
    pub(super) choices: usize,
    pub(super) finish: &'static str,
}

const TEXTS: [&str; 5] = ["", "a", "Hello, \"you\" \\ \u{0}", "日本語 🦀 text that is longer", "\n"];

impl ProviderReply {
    pub(super) fn any(rng: &mut SeededRng, ingredients: &Ingredients) -> Self {
        let oddity = Oddity::any(rng, ingredients);
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let text = format!("{}{}", rng.pick(&TEXTS), rng.below(1_000));
        let has_calls = matches!(oddity, Oddity::MissingId | Oddity::WholeCalls) || rng.once_in(2);
        let content = if has_calls && rng.once_in(2) { Value::Null } else { text.into() };
        message.insert("content".into(), content);
        if rng.once_in(3) {
            message.insert("reasoning_content".into(), (*rng.pick(&TEXTS[1..])).into());
        }
        if ingredients.has(Ingredient::IndexedLists) && rng.once_in(2) {
            let detail = |index: u64| json!({"index": index, "type": "reasoning.text", "text": format!("I think {index}"), "signature": "s=="});
            message.insert("reasoning_details".into(), (0..rng.between(1, 2)).map(detail).collect());
        }
        if has_calls {
            let many = rng.between(if oddity == Oddity::WholeCalls { 2 } else { 1 }, 3);
            let calls: Vec<Value> = (0..many).map(|number| call(number, rng, ingredients)).collect();
            message.insert("tool_calls".into(), calls.into());
        }
        let choices = if oddity == Oddity::None && rng.once_in(4) { 2 } else { 1 };
        Self { message, oddity, choices, finish: if has_calls { "tool_calls" } else { "stop" } }
    }

    fn calls(&self) -> &[Value] {
        self.message.get("tool_calls").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn role(&self, rng: &mut SeededRng) -> Value {
        match self.oddity {
            Oddity::ForeignRole => (*rng.pick(&["user", "tool", "system", "developer", "narrator"])).into(),
            _ => "assistant".into(),
        }
    }

    /// Returns the calls as the provider sends them.
    fn sent_calls(&self, rng: &mut SeededRng) -> Vec<Value> {
        let mut calls = self.calls().to_vec();
        if self.oddity == Oddity::MissingId {
            match rng.below(3) {
                0 => drop(calls[0].as_object_mut().map(|call| call.remove("id"))),
                1 => calls[0]["id"] = "".into(),
                _ => calls.push(Value::Null),
            }
        }
        calls
    }

    /// Returns the body of a unary response.
    pub(super) fn whole(&self, rng: &mut SeededRng) -> String {
        let mut message = self.message.clone();
        message.insert("role".into(), self.role(rng));
        if !self.calls().is_empty() {
            message.insert("tool_calls".into(), self.sent_calls(rng).into());
        }
        let index = self.index(rng);
        let mut choices = vec![json!({"index": index, "message": message, "finish_reason": self.finish})];
        if self.choices > 1 || self.oddity == Oddity::ForeignChoice {
            let other = json!({"role": "assistant", "content": "other"});
            choices.insert(0, json!({"index": 1, "message": other, "finish_reason": "stop"}));
        }
        let body =
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}).to_string();
        self.wire(&body)
    }

    fn index(&self, rng: &mut SeededRng) -> Value {
        match self.oddity {
            Oddity::OtherNumber => 1.into(),
            Oddity::OddIndex if rng.once_in(2) => 0.0.into(),
            Oddity::OddIndex => "0".into(),
            _ => 0.into(),
        }
    }

    /// Returns the text of a body or chunk, with parts that a JSON value cannot express.
    fn wire(&self, json: &str) -> String {
        let rest = json.strip_prefix('{').unwrap_or(json);
        match self.oddity {
            Oddity::RepeatedKey => format!("{{\"usage\":null,\"usage\":null,{rest}"),
            Oddity::HostileUsage => {
                format!("{{\"usage\":{{\"prompt_tokens\":18446744073709551615,\"completion_tokens\":-1.5}},{rest}")
            }
            Oddity::DeepField => format!("{{\"x\":{},{rest}", nested(20_000)),
            _ => json.to_owned(),
        }
    }

    /// Returns the chunks of a stream, in order, and the number of chunks until the reply is complete.
    pub(super) fn pieces(&self, rng: &mut SeededRng) -> (Vec<String>, usize) {
        let mut deltas = vec![json!({"role": self.role(rng)})];
        for (name, value) in &self.message {
            match value {
                Value::String(text) if name != "role" => {
                    deltas.extend(split(text, rng).into_iter().map(|piece| json!({name: piece})));
                }
                Value::Array(details) if name == "reasoning_details" => {
                    deltas.extend(details.iter().flat_map(|detail| pieces_of_detail(detail, rng)));
                }
                _ => {}
            }
        }
        let calls = self.sent_calls(rng);
        if self.oddity == Oddity::WholeCalls {
            let without: Vec<Value> =
                calls.iter().map(|call| json!({"type": "function", "function": call["function"]})).collect();
            if rng.once_in(2) {
                deltas.push(json!({"tool_calls": without}));
            } else {
                deltas.extend(without.into_iter().map(|call| json!({"tool_calls": [call]})));
            }
        } else {
            deltas.extend(interleave(&calls, rng));
        }
        let index = self.index(rng);
        let mut chunks: Vec<Value> =
            deltas.into_iter().map(|delta| json!([{"index": index, "delta": delta, "finish_reason": null}])).collect();
        if self.choices > 1 || self.oddity == Oddity::ForeignChoice {
            // The other choice ends before this one ends and after this one began, because nothing
            // distinguishes a choice that begins later from one that does not come. Its pieces are inserted
            // anywhere between these, in their order.
            let other = [json!({"role": "assistant", "content": "other"}), json!({"content": " one"}), json!({})];
            let (mut at, mut first) = (0, 0);
            for (number, delta) in other.into_iter().enumerate() {
                let finish = if number == 2 { "stop".into() } else { Value::Null };
                at += rng.index(chunks.len() + 1 - at);
                if number == 2 {
                    at = at.max(first + 1);
                }
                first += usize::from(at <= first);
                chunks.insert(at, json!([{"index": 1, "delta": delta, "finish_reason": finish}]));
                at += 1;
            }
        }
        chunks.push(json!([{"index": index, "delta": {}, "finish_reason": self.finish}]));
        let complete = chunks.len();
        chunks.push(json!([]));
        let chunk = |choices: Value| {
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices})
                .to_string()
        };
        (chunks.into_iter().map(|choices| self.wire(&chunk(choices))).collect(), complete)
    }
}

fn call(number: u64, rng: &mut SeededRng, ingredients: &Ingredients) -> Value {
    let arguments = match rng.below(6) {
        0 if ingredients.has(Ingredient::DeepJson) => nested(*rng.pick(&[500, 10_000, 100_000])),
        1 => String::new(),
        2 => "{\"a\":\"日本\\u0000\"}".to_owned(),
        _ => format!("{{\"a\":{number}}}"),
    };
    json!({"id": format!("call-{number}"), "type": "function", "function": {"name": format!("f{number}"), "arguments": arguments}})
}

fn split(text: &str, rng: &mut SeededRng) -> Vec<String> {
    let mut pieces = vec![String::new()];
    // A long text is cut at few places.
    let rarely = 4 + text.len() as u64 / 20;
    for char in text.chars() {
        if rng.once_in(rarely) {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push(char);
        }
    }
    pieces
}

fn pieces_of_detail(detail: &Value, rng: &mut SeededRng) -> Vec<Value> {
    let (index, text) = (&detail["index"], detail["text"].as_str().unwrap_or_default());
    let texts = split(text, rng).into_iter();
    let mut pieces: Vec<Value> =
        texts.map(|text| json!({"index": index, "type": detail["type"], "text": text})).collect();
    pieces.push(json!({"index": index, "type": detail["type"], "signature": detail["signature"]}));
    pieces.into_iter().map(|piece| json!({"reasoning_details": [piece]})).collect()
}

/// Returns the pieces of all calls, interleaved.
fn interleave(calls: &[Value], rng: &mut SeededRng) -> Vec<Value> {
    let far = rng.once_in(6);
    let mut queues: Vec<std::collections::VecDeque<Value>> = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let number = number as u64;
        // Indexes that no list can have. They only sort the pieces.
        let index = if far { 4_000_000_000 + number } else { number };
        if call.is_null() {
            queues.push([Value::Null].into());
            continue;
        }
        let mut first = call.clone();
        first["index"] = index.into();
        first["function"]["arguments"] = "".into();
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let rest =
            split(arguments, rng).into_iter().map(|piece| json!({"index": index, "function": {"arguments": piece}}));
        queues.push(std::iter::once(first).chain(rest).collect());
    }
    let mut deltas = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let queue = rng.index(queues.len());
        if let Some(piece) = queues[queue].pop_front() {
            deltas.push(json!({"tool_calls": [piece]}));
        }
    }
    deltas
}
