//! The parts of requests and replies that providers check and make.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde::Deserialize;
#[cfg(any(feature = "openai", feature = "server"))]
use serde_json::Map;
use serde_json::{Value, value::RawValue};
use tower_chat_history_core::{Digest, Message, json};

use crate::{signature, util::lock};

/// The parts of a request that providers check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) messages: &'a [Message],
    /// The tools, as JSON.
    pub(crate) tools: Option<&'a str>,
    /// `false` if the request disables thinking.
    pub(crate) thinks: bool,
}

/// The body of a request.
#[derive(Deserialize)]
pub(super) struct Body<'a> {
    messages: Vec<Message>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    thinking: Option<Value>,
}

impl<'a> Body<'a> {
    /// Reads a body, or returns `None` if it is not a request with messages. Lone surrogates are refused, as by other
    /// strict readers.
    pub(super) fn read(body: &'a str) -> Option<Self> {
        if json::without_lone_surrogates(body).is_some() {
            return None;
        }
        serde_json::from_str(body).ok()
    }

    pub(super) fn prompt(&self) -> Prompt<'_> {
        Prompt {
            messages: &self.messages,
            tools: self.tools.map(RawValue::get),
            thinks: thinks(self.thinking.as_ref()),
        }
    }
}

/// Returns `false` if this value of the field `thinking` disables thinking.
pub(crate) fn thinks(thinking: Option<&Value>) -> bool {
    thinking.is_none_or(|thinking| thinking["type"] != "disabled")
}

/// The replies that a mock made with reasoning. Clones share them.
///
/// A reply is known by its text and its calls, because these are what a client sends back at least.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyRecords(Arc<Mutex<HashMap<Digest, usize>>>);

impl ReplyRecords {
    /// Records a reply and the number of its signatures.
    #[cfg(any(feature = "openai", feature = "server"))]
    pub(super) fn add(&self, message: &Value, signatures: usize) {
        lock(&self.0).insert(signature::digest(message), signatures);
    }

    /// Returns the number of a reply's signatures, or `None` if the reply was not made with reasoning.
    pub(super) fn signatures(&self, message: &Value) -> Option<usize> {
        lock(&self.0).get(&signature::digest(message)).copied()
    }
}

/// A piece of reasoning in a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thought {
    /// Reasoning with a text.
    Text(String),
    /// Reasoning that the provider encrypts.
    Redacted,
}

impl Thought {
    /// Returns the text; for redacted reasoning, it is empty.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Redacted => "",
        }
    }
}

#[cfg(any(feature = "openai", feature = "server"))]
/// The provider's fields of a reply.
#[derive(Debug, Default)]
pub(crate) struct ProviderFields {
    /// Fields of the whole message.
    pub(crate) fields: Map<String, Value>,
    /// The same fields as the deltas of a stream.
    pub(crate) deltas: Vec<Value>,
    /// Further fields of the first calls.
    pub(crate) calls: Vec<Map<String, Value>>,
    /// `true` if a stream has each call as a whole and without index, and ends with `stop`.
    pub(crate) whole_calls: bool,
}
