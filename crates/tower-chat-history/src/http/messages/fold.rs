//! Folding the events of a stream into a reply.
//!
//! # Decisions
//!
//! - **A reply that breaks off keeps its blocks up to the first call or unfinished block, and all texts.** Half a block
//!   of thinking has no signature, and half a call has no arguments.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    fmt,
};

use tower_chat_history_core::{
    Message,
    json::{self, Object},
};

use super::reply::{self, Counts};
use crate::{
    adapt::{
        Flow, FoldReply,
        completion::{self, without_half_pair},
    },
    call::Reply,
    dialect::AnthropicMessages,
    http::sse::Event,
};

/// The largest size of the blocks in memory, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// Assembles a reply from its events.
#[derive(Default)]
pub(super) struct MessagesFold {
    /// The blocks, in the order in which they began.
    blocks: Vec<Block>,
    /// The position of the newest block with each index.
    places: HashMap<u64, usize>,
    has_begun: bool,
    model: Option<String>,
    stop_reason: Option<String>,
    counts: Counts,
    /// An upper bound for the size of `blocks`, in bytes.
    bytes: usize,
    /// `true` after `message_stop`.
    has_message_stop: bool,
    /// `true` after the last event.
    has_stopped: bool,
    /// `true` if an event was an error or could not be read, or if the reply was too large. The reply can then no
    /// longer become complete.
    is_broken: bool,
}

impl MessagesFold {
    /// Returns `true` if all parts of the reply have come: there is a stop reason. Some gateways leave it out, so
    /// `message_stop` after finished blocks counts, too.
    fn is_over(&self) -> bool {
        if !self.has_begun {
            return false;
        }
        if self.stop_reason.is_some() {
            return true;
        }
        self.has_message_stop && !self.blocks.is_empty() && self.blocks.iter().all(|block| block.is_finished)
    }

    /// Marks the reply as broken off. A reply that has all its parts stays complete.
    fn fail(&mut self) {
        self.is_broken |= !self.is_over();
    }

    /// Adds an event. Returns `None` if it cannot be read.
    fn take(&mut self, event: &Event) -> Option<()> {
        if event.name() == b"error" {
            return None;
        }
        let text = std::str::from_utf8(event.data()).ok()?;
        let object = Object::read(text)?;
        let kind = object.text("type").or_else(|| std::str::from_utf8(event.name()).ok().map(Cow::Borrowed));
        match &*kind.unwrap_or_default() {
            "message_start" => self.begin(&object.object("message")?)?,
            "content_block_start" => self.begin_block(object.number("index"), object.get("content_block")?)?,
            "content_block_delta" => {
                let delta = object.object("delta")?;
                let added = self.block(object.number("index"))?.join(&delta);
                self.bytes = self.bytes.saturating_add(added);
            }
            "content_block_stop" => self.block(object.number("index"))?.is_finished = true,
            "message_delta" => {
                let delta = object.object("delta");
                self.stop_reason = delta.and_then(|delta| stop_reason(&delta)).or(self.stop_reason.take());
                self.counts.read(&object);
            }
            "message_stop" => self.has_message_stop = true,
            "error" => return None,
            _ if object.get("error").is_some() => return None,
            // The provider may add events.
            _ => {}
        }
        Some(())
    }

    fn begin(&mut self, message: &Object<'_>) -> Option<()> {
        self.has_begun = true;
        if message.text("role").is_some_and(|role| role != "assistant") {
            completion::warn_of_role();
        }
        self.model = message.string("model").or(self.model.take());
        self.stop_reason = stop_reason(message).or(self.stop_reason.take());
        self.counts.read(message);
        for (index, json) in (0..).zip(message.entries("content").unwrap_or_default()) {
            self.begin_block(Some(index), json)?;
            self.block(Some(index))?.is_finished = true;
        }
        Some(())
    }

    fn begin_block(&mut self, index: Option<u64>, json: &str) -> Option<()> {
        let block = Block::begin(json)?;
        self.bytes = self.bytes.saturating_add(size_of_json(json.as_bytes()));
        let place = self.blocks.len();
        self.places.insert(index.unwrap_or(place as u64), place);
        self.blocks.push(block);
        Some(())
    }

    /// Returns the newest block with this index, or the newest of all if there is no index.
    fn block(&mut self, index: Option<u64>) -> Option<&mut Block> {
        let place = match index {
            Some(index) => *self.places.get(&index)?,
            None => self.blocks.len().checked_sub(1)?,
        };
        self.blocks.get_mut(place)
    }

    /// Returns `false` if the reply can be larger than the limit with this event.
    fn fits(&self, event: &Event) -> bool {
        self.bytes.saturating_add(size_of_json(event.data())) <= MAX_BYTES
    }

    fn with_message(&self, message: Option<Message>) -> Reply {
        let mut reply = Reply::of(message);
        reply.model.clone_from(&self.model);
        reply.finish_reason.clone_from(&self.stop_reason);
        reply.usage = self.counts.usage();
        reply
    }
}

/// Returns the stop reason. Some gateways write an empty text for none.
fn stop_reason(object: &Object<'_>) -> Option<String> {
    object.string("stop_reason").filter(|reason| !reason.is_empty())
}

/// Returns the message of these blocks.
fn message<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Option<Message> {
    let mut content = String::from("[");
    for block in blocks {
        if content.len() > 1 {
            content.push(',');
        }
        block.write(&mut content);
    }
    content.push(']');
    reply::message_with(&content)
}

impl FoldReply<Event> for MessagesFold {
    fn push(&mut self, event: &Event) -> Flow {
        if self.has_stopped || event.name() == b"ping" {
            return Flow::Pass;
        }
        if event.data().trim_ascii() == b"[DONE]" {
            // Some gateways end every stream as chat completions end.
            self.has_stopped = true;
            return Flow::Hold;
        }
        if self.is_broken {
            // Only the parts before the error form the partial reply.
        } else if !self.fits(event) {
            if !self.is_over() {
                tracing::warn!("a streamed reply exceeds a size limit; its exchange is not stored");
                self.is_broken = true;
                self.blocks.clear();
                self.places.clear();
            }
        } else if self.take(event).is_none() {
            self.fail();
        }
        self.has_stopped |= event.name() == b"message_stop" || self.has_message_stop;
        if self.has_stopped { Flow::Hold } else { Flow::Pass }
    }

    fn is_complete(&self) -> bool {
        !self.is_broken && self.is_over()
    }

    fn is_whole(&self) -> bool {
        self.is_complete()
    }

    fn reply(&self) -> Reply {
        self.with_message(if self.has_begun { message(&self.blocks) } else { None })
    }

    fn partial(&self) -> Option<Reply> {
        let kept = kept(&self.blocks);
        if !kept.iter().any(|block| block.has_text()) {
            return None;
        }
        let mut reply = self.with_message(message(kept));
        reply.incomplete = true;
        Some(reply)
    }
}

impl fmt::Debug for MessagesFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagesFold")
            .field("blocks", &self.blocks.len())
            .field("bytes", &self.bytes)
            .field("has_stopped", &self.has_stopped)
            .field("is_broken", &self.is_broken)
            .finish_non_exhaustive()
    }
}

/// Returns the blocks that can be sent again: the first ones, up to one that is not finished or is a call, and the
/// texts after them.
///
/// Thinking is bound to everything before it, so none is kept after a block that is left out. None is kept at the end
/// either, because the API refuses a reply that ends with thinking. A tool that the provider executes is kept together
/// with its result.
fn kept(blocks: &[Block]) -> Vec<&Block> {
    let mut open = HashSet::new();
    let mut whole = 0;
    for (position, block) in blocks.iter().enumerate() {
        let is_text = block.kind == "text";
        if block.kind == "tool_use" || !block.is_finished && !is_text {
            break;
        }
        if AnthropicMessages::is_server_call(&block.kind) {
            open.insert(block.text("id").unwrap_or_default());
        } else if AnthropicMessages::is_server_result(&block.kind) {
            open.remove(&block.text("tool_use_id").unwrap_or_default());
        }
        if open.is_empty() {
            whole = position + 1;
        }
    }

    let (first, others) = blocks.split_at(whole);
    let mut kept: Vec<&Block> = first.iter().collect();
    kept.extend(others.iter().filter(|block| block.has_text()));
    while let Some(last) = kept.last()
        && matches!(&*last.kind, "thinking" | "redacted_thinking")
    {
        kept.pop();
    }
    kept
}

/// A block of the content.
struct Block {
    /// The type.
    kind: String,
    /// `true` if its end has come.
    is_finished: bool,
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
fn size_of_json(json: &[u8]) -> usize {
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
    fn begin(json: &str) -> Option<Self> {
        let kind = Object::read(json)?.string("type").unwrap_or_default();
        Some(Self { kind, is_finished: false, begun: json.to_owned(), members: None, input: String::new() })
    }

    /// Joins a delta. Unknown deltas have members with the names of those that they extend, as the known ones do.
    /// Returns an upper bound for the bytes that the block grows by.
    fn join(&mut self, delta: &Object<'_>) -> usize {
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
    fn has_text(&self) -> bool {
        if self.kind != "text" {
            return false;
        }

        let begun;
        let members = match &self.members {
            Some(members) => members,
            None => {
                begun = members_of(&self.begun);
                &begun
            }
        };
        let text = members.iter().rfind(|(name, _)| name == "text");
        matches!(text, Some((_, Value::Text(text))) if !without_half_pair(text).is_empty())
    }

    /// Returns the text of a member.
    fn text(&self, name: &str) -> Option<String> {
        let Some(members) = &self.members else { return Object::read(&self.begun)?.string(name) };
        match members.iter().rfind(|(own, _)| own == name)? {
            (_, Value::Text(text)) => serde_json::from_str(&format!("\"{text}\"")).ok(),
            _ => None,
        }
    }

    /// Writes the block as JSON.
    fn write(&self, json: &mut String) {
        let input = self.input();
        let begun = match (&self.members, &input) {
            (None, None) => return json.push_str(&self.begun),
            (None, Some(_)) => members_of(&self.begun),
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
        self.members.get_or_insert_with(|| members_of(&self.begun))
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
fn members_of(json: &str) -> Members {
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
