//! The parts of a request that the provider checks.

use serde::Deserialize;
use serde_json::{Value, json};
use tower_chat_history_core::Digest;

use super::Reason;
use crate::normal;

/// A request.
pub(super) struct Request {
    pub(super) model: String,
    /// The digest of instructions and tools.
    pub(super) head: Digest,
    pub(super) messages: Vec<Said>,
    /// The number of marks for the cache, in the whole request.
    pub(super) marks: usize,
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
    /// `true` if the message has other fields than role and content.
    pub(super) has_settings: bool,
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
        let parts = [&body.system, &body.tools];
        let marks = parts.into_iter().chain(&messages).map(marks).sum::<usize>() + mark(&body.cache_control);
        let read = |(position, message)| Said::read(message).ok_or(Reason::Role { message: position });
        let binding = &body.thinking["block_binding"]["prefix_mismatch_behavior"];
        Ok(Self {
            model,
            head: normal::digest_of(&json!([blocks(&body.system), body.tools])),
            messages: messages.iter().enumerate().map(read).collect::<Result<_, _>>()?,
            marks,
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
        let has_settings = message.as_object()?.keys().any(|name| name != "role" && name != "content");
        Some(Self { speaker, blocks: blocks(&message["content"]), has_settings })
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

fn mark(value: &Value) -> usize {
    usize::from(!value.is_null())
}

/// Returns the number of marks in the blocks of a message, of a list of tools, or of the instructions. Blocks in the
/// content of a result count, too.
fn marks(part: &Value) -> usize {
    let entries = match part {
        Value::Array(entries) => entries.iter().collect(),
        Value::Object(_) => part["content"].as_array().into_iter().flatten().collect(),
        _ => Vec::new(),
    };
    let inner = |entry: &Value| entry["content"].as_array().into_iter().flatten().map(own).sum::<usize>();
    entries.into_iter().map(|entry| own(entry) + inner(entry)).sum()
}

fn own(entry: &Value) -> usize {
    mark(&entry["cache_control"])
}
