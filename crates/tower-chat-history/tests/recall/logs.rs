//! Logs for tests.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_chat_history_core::{Message, Recorded, Seq};

/// A small vocabulary, so that words repeat.
pub(crate) fn words(count: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        4 => prop::sample::select(vec!["dog", "Rex", "walks", "walking", "blue", "the", "and", "Tokyo", "42"]),
        1 => prop::sample::select(vec!["今天", "공원에서", "Zoë", "naïve", "rare", "x"]),
    ];
    prop::collection::vec(word, count).prop_map(|words| words.join(" "))
}

/// A message of a log: mostly text, sometimes a call, a result, an instruction, or nothing.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    let role = prop::sample::select(vec!["user", "assistant"]);
    prop_oneof![
        6 => (role, words(0..12)).prop_map(|(role, text)| of(&json!({"role": role, "content": text}))),
        2 => (words(0..4), words(1..4)).prop_map(|(text, arguments)| {
            let call = json!({"id": "a", "type": "function", "function": {"name": "find", "arguments": arguments}});
            of(&json!({"role": "assistant", "content": text, "tool_calls": [call]}))
        }),
        2 => words(0..12).prop_map(|text| Message::tool("a", text)),
        1 => words(200..700).prop_map(Message::user),
        1 => words(0..5).prop_map(Message::system),
    ]
}

pub(crate) fn of(value: &Value) -> Message {
    Message::try_from(value.clone()).unwrap()
}

/// A log of about as many exchanges.
pub(crate) fn log(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Recorded>> {
    prop::collection::vec(message(), len).prop_map(Recorded::log)
}

/// A log of `len` exchanges that repeats others, so that long logs are made fast.
pub(crate) fn repeated(log: &[Recorded], len: u64) -> Vec<Recorded> {
    (0..len)
        .zip(log.iter().cycle())
        .map(|(seq, recorded)| Recorded::new(Seq::new(seq), Arc::clone(&recorded.exchange)))
        .collect()
}
