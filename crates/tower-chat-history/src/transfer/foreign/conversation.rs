//! Conversations of other formats, and messages whose JSON does not depend on the build.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tower_chat_history_core::{Digest, Exchange, ExchangeId, Message, Recorded, Timestamp, Usage, nested};

/// A conversation that was read from another format.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ForeignConversation {
    /// Its name in the other format, such as the id of a session. If the format has none, it is the number of the
    /// record.
    pub name: String,
    /// The number of its line, record or row, counted from 1.
    pub record: u64,
    /// Its messages, in order. All of them are in one dialect.
    pub messages: Vec<ForeignMessage>,
    /// The number of parts of messages that have no counterpart and were left out.
    pub left_out: u64,
}

/// A message of another format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ForeignMessage {
    /// The message.
    pub message: Message,
    /// The time at which it was stored, if it is known.
    pub at: Option<Timestamp>,
    /// The model that wrote it, if it is known.
    pub model: Option<String>,
    /// The reason why the model stopped, if it is known.
    pub finish_reason: Option<String>,
    /// The usage of the call, if it is known.
    pub usage: Option<Usage>,
}

impl ForeignMessage {
    /// Creates a message of which nothing else is known.
    #[must_use]
    pub const fn new(message: Message) -> Self {
        Self { message, at: None, model: None, finish_reason: None, usage: None }
    }

    /// Sets the time at which it was stored.
    #[must_use]
    pub const fn at(mut self, at: Option<Timestamp>) -> Self {
        self.at = at;
        self
    }
}

impl ForeignConversation {
    pub(super) const fn new(name: String, record: u64) -> Self {
        Self { name, record, messages: Vec::new(), left_out: 0 }
    }

    /// Removes the instructions from the beginning. Returns their number. They belong to each request.
    pub(super) fn remove_instructions(&mut self) -> usize {
        let instructions = self.messages.iter().take_while(|one| one.message.is_instruction()).count();
        self.messages.drain(..instructions);
        instructions
    }

    /// Returns the exchanges that the messages form, with ids that depend only on the name and on the messages so far.
    /// If no time is known, an exchange gets the time `now`.
    pub(super) fn exchanges(&self, now: Timestamp) -> Vec<Exchange> {
        let messages = self.messages.iter().map(|one| one.message.clone()).collect();
        let mut rest = self.messages.iter();
        let mut digest = Digest::of(self.name.as_bytes());
        let mut exchanges = Vec::new();

        for recorded in Recorded::log(messages) {
            let mut exchange = (*recorded.exchange).clone();
            let parts: Vec<_> = rest.by_ref().take(exchange.messages.len()).collect();
            for part in &parts {
                digest = digest.then(Digest::of(part.message.json().as_bytes()));
            }

            exchange.id = ExchangeId::new(format!("imported-{digest}")).unwrap_or(exchange.id);
            exchange.at = parts.iter().filter_map(|part| part.at).max().unwrap_or(now);
            exchange.model = parts.iter().rev().find_map(|part| part.model.clone());
            exchange.finish_reason = parts.iter().rev().find_map(|part| part.finish_reason.clone());
            exchange.usage = parts.iter().rev().find_map(|part| part.usage);
            exchanges.push(exchange);
        }
        exchanges
    }
}

/// A value that is written with its fields in alphabetical order. The order that `serde_json` uses depends on features
/// that other crates enable. The ids of imported exchanges depend on the text, so the order must always be the same.
struct SortedJson<'a>(&'a Value);

impl Serialize for SortedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let sorted: BTreeMap<_, _> = fields.iter().map(|(name, value)| (name, SortedJson(value))).collect();
                serializer.collect_map(sorted)
            }
            Value::Array(values) => serializer.collect_seq(values.iter().map(SortedJson)),
            value => value.serialize(serializer),
        }
    }
}

/// Returns the JSON of a value, with its fields in alphabetical order, or `None` if it has too many levels.
pub(super) fn json_text(value: &Value) -> Option<String> {
    nested::to_string(&SortedJson(value)).ok()
}

/// Returns the message of chat completions with these fields, or `None` if it is not a valid one.
pub(super) fn message_of(value: &Value) -> Option<Message> {
    Message::from_json(json_text(value)?).ok()
}
