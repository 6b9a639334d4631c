//! The parts of a request that the provider checks.

use serde::Deserialize;
use serde_json::{Value, json};
use tower_chat_history_core::Digest;

use super::{
    Reason,
    marks::{self, Mark},
};
use crate::normal;

/// A request.
pub(super) struct Request {
    pub(super) model: String,
    /// The digest of instructions and tools.
    pub(super) head: Digest,
    pub(super) messages: Vec<Said>,
    /// The marks of blocks for the cache.
    pub(super) marks: Vec<Mark>,
    /// `true` if the request itself has a mark.
    pub(super) is_marked: bool,
    /// `true` if the instructions have an empty text.
    pub(super) has_empty_system: bool,
    /// `true` if thinking is enabled with a budget. The last tool round then needs its thinking.
    pub(super) needs_thinking: bool,
    /// `true` if thinking that does not fit is ignored.
    pub(super) drops_thinking: bool,
}

/// A message.
pub(super) struct Said {
    pub(super) speaker: Speaker,
    /// The blocks of the content. A text is one block.
    pub(super) blocks: Vec<Value>,
    /// The name of the first field besides role and content.
    pub(super) extra: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
    System,
}

#[derive(Deserialize)]
struct Body {
    model: Option<String>,
    max_tokens: Option<u64>,
    messages: Option<Vec<Value>>,
    #[serde(default)]
    system: Value,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    thinking: Value,
    #[serde(default)]
    cache_control: Value,
}

impl Request {
    /// Reads the body of a request.
    pub(super) fn read(body: &str) -> Result<Self, Reason> {
        let body: Body = serde_json::from_str(body).map_err(|_| Reason::Unreadable)?;
        let model = body.model.ok_or(Reason::MissingField { name: "model" })?;
        body.max_tokens.ok_or(Reason::MissingField { name: "max_tokens" })?;
        let messages = body.messages.ok_or(Reason::MissingField { name: "messages" })?;
        let read = |(position, message)| Said::read(message).ok_or(Reason::Role { message: position });
        let binding = &body.thinking["block_binding"]["prefix_mismatch_behavior"];
        Ok(Self {
            model,
            head: normal::digest_of(&json!([blocks(&body.system), body.tools])),
            messages: messages.iter().enumerate().map(read).collect::<Result<_, _>>()?,
            marks: marks::of(&body.tools, &body.system, &messages),
            is_marked: !body.cache_control.is_null(),
            has_empty_system: body.system.as_array().into_iter().flatten().any(|block| block["text"] == ""),
            needs_thinking: body.thinking["type"] == "enabled",
            drops_thinking: binding == "drop_block",
        })
    }

    /// Returns the messages, of which those of one speaker are joined.
    pub(super) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for (message, said) in self.messages.iter().enumerate() {
            let placed = said.blocks.iter().enumerate().map(|(block, json)| Placed { message, block, json });
            match groups.last_mut().filter(|last| last.speaker == said.speaker && said.speaker != Speaker::System) {
                Some(last) => last.blocks.extend(placed),
                None => groups.push(Group { speaker: said.speaker, first: message, blocks: placed.collect() }),
            }
        }
        groups
    }

    /// Returns all blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Speaker, Placed<'_>)> {
        self.messages.iter().enumerate().flat_map(|(message, said)| {
            let placed = said.blocks.iter().enumerate();
            placed.map(move |(block, json)| (said.speaker, Placed { message, block, json }))
        })
    }
}

/// Messages of one speaker that follow each other.
pub(super) struct Group<'a> {
    pub(super) speaker: Speaker,
    /// The position of the first message.
    pub(super) first: usize,
    pub(super) blocks: Vec<Placed<'a>>,
}

/// A block with its place.
#[derive(Clone, Copy)]
pub(super) struct Placed<'a> {
    pub(super) message: usize,
    pub(super) block: usize,
    pub(super) json: &'a Value,
}

impl<'a> Placed<'a> {
    /// Returns the type.
    pub(super) fn kind(&self) -> &'a str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// Returns a field that is a text.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.json[name].as_str().unwrap_or_default()
    }
}

impl Said {
    fn read(message: &Value) -> Option<Self> {
        let speaker = match message["role"].as_str()? {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "system" => Speaker::System,
            _ => return None,
        };
        let extra = message.as_object()?.keys().find(|name| *name != "role" && *name != "content").cloned();
        Some(Self { speaker, blocks: blocks(&message["content"]), extra })
    }
}

/// Returns the blocks of a content. A text is one block, and an empty one is none.
pub(super) fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        other => vec![other.clone()],
    }
}
