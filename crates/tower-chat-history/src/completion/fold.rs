//! Assembling a reply from a stream's chunks.
//!
//! # Decisions
//!
//! - **The choice with the lowest index is the reply**: some providers give their only choice the index 1.
//! - **Every reply is stored as the assistant's.** With another role it'd be an instruction to the model, or the next
//!   call would fail.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use tower_chat_history_core::{Message, Usage, json, nested};

use super::{
    TooLarge,
    calls::Calls,
    members::{members, object, text},
    node::{Fields, Node},
    read,
};
use crate::{
    call::{Flow, FoldReply, Reply},
    report::ResponseShape,
};

/// The largest total size of all deltas of a reply, in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The overhead of a value in memory, in bytes, in addition to its text.
const VALUE_OVERHEAD: usize = 64;

/// Returns an upper bound for the size of a delta in memory, in bytes. The number of its values is at most one more
/// than the number of its commas.
fn size(delta: &str) -> usize {
    let values = 1 + delta.bytes().filter(|byte| *byte == b',').count();
    delta.len().saturating_add(VALUE_OVERHEAD.saturating_mul(values))
}

/// The largest number of choices whose ends are counted. If more were requested, the reply is complete when the
/// stream ends.
const MAX_CHOICES: usize = 1_024;

/// Assembles a reply from a stream's chunks. The [module docs](super) describe the rules and the limits.
///
/// Of several choices, it keeps the one with the lowest index. The reply is complete when the kept choice has a
/// finish reason, and the number of choices with a finish reason equals the number of requested choices.
#[derive(Default)]
pub struct ChunkFold {
    /// The number of choices that were requested.
    choices: usize,
    /// The indexes of the choices that have a finish reason.
    ended: BTreeSet<u64>,
    /// The index of the kept choice: the lowest index so far.
    kept: Option<u64>,
    /// The fields of the kept choice, except its calls.
    fields: Fields,
    /// The calls of the kept choice.
    calls: Calls,
    /// An upper bound for the size of `fields` and `calls`, in bytes.
    bytes: usize,
    finish_reason: Option<String>,
    /// The number of chunks so far.
    chunks: u64,
    model: Option<String>,
    usage: Option<Usage>,
    /// The shape of a chunk without choices.
    shape: Option<ResponseShape>,
    /// True if a chunk was an error or could not be read, or if the reply was too large. The reply can then no longer
    /// become complete.
    broken: bool,
    /// The buffer for serializing chunks that do not arrive as JSON text.
    buffer: Vec<u8>,
}

impl ChunkFold {
    /// Creates a fold for a stream with this number of requested choices. 0 means 1.
    #[must_use]
    pub fn new(choices: usize) -> Self {
        Self { choices: choices.max(1), ..Self::default() }
    }

    /// Adds the next chunk, given as JSON text. If the chunk is an error or cannot be read, the reply breaks off: it
    /// can no longer become complete. A reply that is already complete stays complete.
    pub fn push_json(&mut self, chunk: &str) {
        let was_over = self.is_over();
        self.chunks = self.chunks.saturating_add(1);
        let chunk = chunk.trim_start_matches('\u{feff}');
        if self.take(chunk).is_err() {
            self.give_up(was_over);
        }
    }

    /// Adds the next chunk, given as a value that serializes to JSON. A chunk with more than [128
    /// levels](crate::adapt::nested::MAX_LEVELS) cannot be read. See [`push_json`](Self::push_json).
    pub fn push_value(&mut self, chunk: &impl Serialize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match nested::to_writer(&mut buffer, chunk).map(|()| std::str::from_utf8(&buffer)) {
            Ok(Ok(json)) => self.push_json(json),
            Ok(Err(_)) | Err(_) => self.fail(),
        }
        // The buffer is used again, unless an unusually large chunk has made it large.
        if buffer.capacity() <= 64 << 10 {
            self.buffer = buffer;
        }
    }

    /// Marks the reply as broken off, because an item was an error or could not be read. A reply that is already
    /// complete stays complete.
    pub fn fail(&mut self) {
        // After the last finish reason, the reply has all its parts, so a later error does not matter.
        self.broken |= !self.is_over();
    }

    fn give_up(&mut self, was_over: bool) {
        if was_over || self.broken {
            return;
        }
        tracing::warn!("a streamed reply exceeds a size limit; its exchange is not stored");
        self.broken = true;
        self.fields = Fields::default();
        self.calls = Calls::default();
    }

    /// Returns `true` if the kept choice and all other requested choices have a finish reason.
    fn is_over(&self) -> bool {
        self.has_kept_ended() && self.ended.len() >= self.choices
    }

    fn has_kept_ended(&self) -> bool {
        self.kept.is_some_and(|kept| self.ended.contains(&kept))
    }

    fn take(&mut self, chunk: &str) -> Result<(), TooLarge> {
        let Some(chunk) = object(chunk)? else {
            self.fail();
            return Ok(());
        };
        if chunk.get("error").is_some() {
            self.fail();
            return Ok(());
        }
        if self.model.is_none() {
            self.model = text(&chunk, "model");
        }
        self.usage = chunk.get("usage").and_then(read::usage).or(self.usage);
        match chunk.written("choices").map(RawValue::get) {
            Some("null") => {}
            Some(choices) => match json::entries(choices) {
                Some(choices) => choices.into_iter().try_for_each(|choice| self.take_choice(choice))?,
                None => self.fail(),
            },
            None if matches!(self.shape, None | Some(ResponseShape::NoChoices)) => {
                self.shape = Some(read::shape(&chunk));
            }
            None => {}
        }
        Ok(())
    }

    fn take_choice(&mut self, choice: &str) -> Result<(), TooLarge> {
        let Some(choice) = object(choice)? else { return Ok(()) };
        let index = read::index(&choice);
        if choice.get("error").is_some() {
            self.fail();
        }

        let is_kept = self.keeps(index);
        let delta = match choice.get("delta") {
            // Some gateways answer with one chunk that has the whole message.
            None if self.bytes == 0 => choice.get("message"),
            delta => delta,
        };
        if let Some(delta) = delta.filter(|_| is_kept) {
            self.take_delta(delta)?;
        }

        if let Some(reason) = text(&choice, "finish_reason") {
            self.ended.insert(index);
            if self.ended.len() > MAX_CHOICES {
                // This is never the kept choice, which has the lowest index.
                self.ended.pop_last();
            }
            if is_kept {
                self.finish_reason = Some(reason);
            }
        }
        Ok(())
    }

    /// Returns `true` if the choice with this index is the one to be stored. Until the reply is complete, a choice
    /// with a smaller index replaces the kept one.
    fn keeps(&mut self, index: u64) -> bool {
        match self.kept {
            Some(kept) if kept == index => true,
            Some(kept) if kept < index || self.is_over() => false,
            _ => {
                self.kept = Some(index);
                self.fields = Fields::default();
                self.calls = Calls::default();
                self.bytes = 0;
                self.finish_reason = None;
                true
            }
        }
    }

    fn take_delta(&mut self, delta: &str) -> Result<(), TooLarge> {
        if self.broken {
            // The parts before the error form a partial reply. Between them and this part, others may be missing.
            return Ok(());
        }

        self.bytes = self.bytes.saturating_add(size(delta));
        if self.bytes > MAX_BYTES {
            return Err(TooLarge);
        }
        let Some(delta) = object(delta)? else {
            self.fail();
            return Ok(());
        };

        for (name, value) in members(&delta) {
            match &*name {
                "role" => Self::take_role(value),
                // The index is only a part of the stream format.
                "index" => {}
                "tool_calls" => {
                    if !self.calls.push(value, self.chunks)? {
                        self.fail();
                    }
                }
                name => self.fields.join_one(name, value, 0)?,
            }
        }
        Ok(())
    }

    fn take_role(json: &str) {
        let is_other = json.starts_with('"') && !matches!(json, "\"assistant\"" | "\"\"");
        if is_other {
            read::warn_of_role();
        }
    }

    fn with_message(&self, message: Option<Message>) -> Reply {
        Reply {
            messages: message.into_iter().collect(),
            model: self.model.clone(),
            finish_reason: self.finish_reason.clone(),
            usage: self.usage,
            unreadable: self.shape.filter(|_| self.kept.is_none()),
            ..Reply::default()
        }
    }
}

impl FoldReply<Value> for ChunkFold {
    fn push(&mut self, chunk: &Value) -> Flow {
        if chunk == "[DONE]" {
            return Flow::Hold;
        }
        self.push_value(chunk);
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        !self.broken && self.is_over()
    }

    fn is_whole(&self) -> bool {
        !self.broken && self.has_kept_ended()
    }

    fn reply(&self) -> Reply {
        let message = self.kept.and_then(|_| message(&self.fields, Some(&self.calls), |_, _| true));
        self.with_message(message)
    }

    /// Returns the text so far. Structured values may be incomplete, so they are left out, except in the content.
    fn partial(&self) -> Option<Reply> {
        let mut fields = self.fields.clone();
        fields.end_texts();
        let texts = ["content", "refusal"].map(|name| fields.get(name));
        if !texts.into_iter().flatten().any(Node::has_content) {
            return None;
        }

        let mut reply = self.with_message(message(&fields, None, |_, node| node.is_text()));
        reply.incomplete = true;
        Some(reply)
    }
}

/// Returns the message in the form of a unary response, with these calls and the fields that `wanted` selects.
fn message(fields: &Fields, calls: Option<&Calls>, wanted: impl Fn(&str, &Node) -> bool) -> Option<Message> {
    let mut json = String::from(r#"{"role":"assistant","content":"#);
    match fields.get("content") {
        Some(content) => content.write(&mut json),
        None => json.push_str("null"),
    }
    fields.write(&mut json, |name, node| name != "content" && wanted(name, node));
    if let Some(calls) = calls.filter(|calls| !calls.is_empty()) {
        json.push_str(",\"tool_calls\":");
        calls.write(&mut json);
    }
    json.push('}');
    Message::from_json(json).ok()
}

impl fmt::Debug for ChunkFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkFold")
            .field("choices", &self.choices)
            .field("ended", &self.ended)
            .field("bytes", &self.bytes)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
