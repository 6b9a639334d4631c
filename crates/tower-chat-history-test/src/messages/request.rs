//! The parts of a request that the provider checks.

use serde::Deserialize;
use serde_json::{Value, json};
use tower_chat_history_core::Digest;

use super::Reason;
use crate::signature::digest_of;

/// A request.
pub(super) struct Request {
    pub(super) model: String,
    /// The digest of instructions and tools.
    pub(super) head: Digest,
    pub(super) messages: Vec<RequestMessage>,
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
pub(super) struct RequestMessage {
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

/// A mark for the cache.
pub(super) struct Mark {
    /// The place of the marked block, such as `messages.0.content.1`.
    pub(super) place: String,
    /// `true` if the block is to stay in the cache for an hour, and not for five minutes.
    pub(super) is_long: bool,
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
        let binding = &body.thinking["block_binding"]["prefix_mismatch_behavior"];
        Ok(Self {
            model,
            head: digest_of(&json!([blocks(&body.system), body.tools])),
            messages: RequestMessage::read_all(&messages)?,
            marks: marks_of(&body.tools, &body.system, &messages),
            is_marked: !body.cache_control.is_null(),
            has_empty_system: body.system.as_array().into_iter().flatten().any(|block| block["text"] == ""),
            needs_thinking: body.thinking["type"] == "enabled",
            drops_thinking: binding == "drop_block",
        })
    }

    /// Returns the messages, of which those of one speaker are joined.
    pub(super) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for (message, sent) in self.messages.iter().enumerate() {
            let placed = sent.blocks.iter().enumerate().map(|(block, json)| BlockAt { message, block, json });
            match groups.last_mut().filter(|last| last.speaker == sent.speaker && sent.speaker != Speaker::System) {
                Some(last) => last.blocks.extend(placed),
                None => groups.push(Group { speaker: sent.speaker, first: message, blocks: placed.collect() }),
            }
        }
        groups
    }

    /// Returns all blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Speaker, BlockAt<'_>)> {
        self.messages.iter().enumerate().flat_map(|(message, sent)| {
            let placed = sent.blocks.iter().enumerate();
            placed.map(move |(block, json)| (sent.speaker, BlockAt { message, block, json }))
        })
    }
}

/// Messages of one speaker that follow each other.
pub(super) struct Group<'a> {
    pub(super) speaker: Speaker,
    /// The position of the first message.
    pub(super) first: usize,
    pub(super) blocks: Vec<BlockAt<'a>>,
}

/// A block with its place.
#[derive(Clone, Copy)]
pub(super) struct BlockAt<'a> {
    pub(super) message: usize,
    pub(super) block: usize,
    pub(super) json: &'a Value,
}

impl<'a> BlockAt<'a> {
    /// Returns the type.
    pub(super) fn kind(&self) -> &'a str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// Returns a field that is a text.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.json[name].as_str().unwrap_or_default()
    }
}

impl RequestMessage {
    fn read_all(messages: &[Value]) -> Result<Vec<Self>, Reason> {
        let mut all = Vec::new();
        for (position, message) in messages.iter().enumerate() {
            all.push(Self::read(message).ok_or(Reason::Role { message: position })?);
        }
        Ok(all)
    }

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

/// Returns the marks of a request, in the order in which the API processes the blocks.
fn marks_of(tools: &Value, system: &Value, messages: &[Value]) -> Vec<Mark> {
    let mut marks = Vec::new();
    marks_of_list("tools", tools, &mut marks);
    marks_of_list("system", system, &mut marks);
    for (position, message) in messages.iter().enumerate() {
        marks_of_list(&format!("messages.{position}.content"), &message["content"], &mut marks);
    }
    marks
}

/// Adds the marks of these blocks. Blocks in the content of a result count, too.
fn marks_of_list(place: &str, list: &Value, marks: &mut Vec<Mark>) {
    for (position, entry) in list.as_array().into_iter().flatten().enumerate() {
        let place = format!("{place}.{position}");
        marks.extend(mark_of(entry, place.clone()));
        for (inner, block) in entry["content"].as_array().into_iter().flatten().enumerate() {
            marks.extend(mark_of(block, format!("{place}.content.{inner}")));
        }
    }
}

fn mark_of(entry: &Value, place: String) -> Option<Mark> {
    let mark = &entry["cache_control"];
    (!mark.is_null()).then(|| Mark { place, is_long: mark["ttl"] == "1h" })
}
