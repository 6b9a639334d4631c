//! Folding a stream of chunks into the reply.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;
use serde_json::Value;
use tower_chat_history_core::{Message, Usage, nested};

use super::{
    TooLarge,
    calls::Calls,
    members::{Members, elements, number},
    node::{Fields, Node},
    read, role, shape,
};
use crate::{
    call::{Flow, FoldReply, Reply},
    report::ResponseShape,
};

/// The largest size of all deltas of a reply together.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// What a value that may be kept by itself adds to the size of its text.
const VALUE: usize = 64;

/// The size of a delta in memory, at most: it brings a value, and each comma may part two.
fn size(delta: &str) -> usize {
    let values = 1 + delta.bytes().filter(|byte| *byte == b',').count();
    delta.len().saturating_add(VALUE.saturating_mul(values))
}

/// The largest number of choices whose ends are counted. A stream that asked for more is complete when it ends.
const MAX_CHOICES: usize = 1_024;

/// Puts a reply together from the chunks of a stream. The [module docs](super) have the rules and the limits.
///
/// It is complete when the kept choice has ended and as many choices have ended as were asked for. The kept choice is
/// the one with the least index that was seen.
#[derive(Default)]
pub struct ChunkFold {
    /// How many choices must end.
    choices: usize,
    ended: BTreeSet<u64>,
    /// The least index seen.
    kept: Option<u64>,
    /// Of the kept choice: all but its calls, then these, and at most the size of both.
    fields: Fields,
    calls: Calls,
    bytes: usize,
    finish_reason: Option<String>,
    /// How many chunks came.
    chunks: u64,
    model: Option<String>,
    usage: Option<Usage>,
    /// What a chunk without choices looks like.
    shape: Option<ResponseShape>,
    /// True if a chunk was an error or could not be read, or too much came: what there is, is not the whole reply.
    broken: bool,
    has_other_role: bool,
    /// Where chunks are written that are no text.
    buffer: Vec<u8>,
}

impl ChunkFold {
    /// A fold for a stream of that many choices; 0 counts as 1.
    #[must_use]
    pub fn new(choices: usize) -> Self {
        Self { choices: choices.max(1), ..Self::default() }
    }

    /// Takes the next chunk, as JSON text. A chunk that cannot be read, or that is an error, ends the reply: it is not
    /// complete, unless it was before.
    pub fn push_json(&mut self, chunk: &str) {
        let was_over = self.is_over();
        self.chunks = self.chunks.saturating_add(1);
        let chunk = chunk.trim_start_matches('\u{feff}');
        if self.take(chunk).is_err() {
            self.give_up(was_over);
        }
    }

    /// Takes the next chunk as the JSON that it serializes to. One with more than
    /// [128 levels](crate::adapt::nested::MAX_LEVELS) cannot be read. See [`push_json`](Self::push_json).
    pub fn push_value(&mut self, chunk: &impl Serialize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match nested::to_writer(&mut buffer, chunk).map(|()| std::str::from_utf8(&buffer)) {
            Ok(Ok(json)) => self.push_json(json),
            Ok(Err(_)) | Err(_) => self.fail(),
        }
        // It is used again, unless a chunk was of an unusual size.
        if buffer.capacity() <= 64 << 10 {
            self.buffer = buffer;
        }
    }

    /// Notes that an item was an error or could not be read: from here on the reply is not complete, unless it was
    /// before.
    pub fn fail(&mut self) {
        // After the last finish reason nothing is missing from the reply, however the bytes are cut.
        self.broken |= !self.is_over();
    }

    /// Notes that the stream has more than can be kept. What was kept is dropped.
    pub fn fail_too_large(&mut self) {
        self.give_up(self.is_over());
    }

    fn give_up(&mut self, was_over: bool) {
        if was_over || self.broken {
            return;
        }
        tracing::warn!("a streamed reply is larger than what is kept of one; it is not stored");
        self.broken = true;
        (self.fields, self.calls) = (Fields::default(), Calls::default());
    }

    /// Returns whether the kept choice has ended, and as many as were asked for.
    fn is_over(&self) -> bool {
        self.has_kept_ended() && self.ended.len() >= self.choices
    }

    fn has_kept_ended(&self) -> bool {
        self.kept.is_some_and(|kept| self.ended.contains(&kept))
    }

    fn take(&mut self, chunk: &str) -> Result<(), TooLarge> {
        let Some(chunk) = Members::of(chunk)? else {
            self.fail();
            return Ok(());
        };
        if chunk.some("error").is_some() {
            self.fail();
            return Ok(());
        }
        if self.model.is_none() {
            self.model = chunk.text("model");
        }
        self.usage = chunk.get("usage").and_then(read::usage).or(self.usage);
        match chunk.get("choices") {
            Some("null") => {}
            Some(choices) => match elements(choices) {
                Some(choices) => choices.into_iter().try_for_each(|choice| self.take_choice(choice))?,
                None => self.fail(),
            },
            None if matches!(self.shape, None | Some(ResponseShape::NoChoices)) => {
                self.shape = Some(shape::of_object(&chunk));
            }
            None => {}
        }
        Ok(())
    }

    fn take_choice(&mut self, choice: &str) -> Result<(), TooLarge> {
        let Some(choice) = Members::of(choice)? else { return Ok(()) };
        let index = choice.get("index").and_then(number).unwrap_or(0);
        if choice.some("error").is_some() {
            self.fail();
        }
        let is_kept = self.keeps(index);
        if let Some(delta) = choice.some("delta").filter(|_| is_kept) {
            self.take_delta(delta)?;
        }
        if let Some(reason) = choice.text("finish_reason") {
            self.ended.insert(index);
            if self.ended.len() > MAX_CHOICES {
                // Never the kept one, which is the least.
                self.ended.pop_last();
            }
            if is_kept {
                self.finish_reason = Some(reason);
            }
        }
        Ok(())
    }

    /// Returns whether the choice with that index is the reply: the first one, until there is one before it.
    fn keeps(&mut self, index: u64) -> bool {
        match self.kept {
            Some(kept) if kept == index => true,
            Some(kept) if kept < index || self.is_over() => false,
            _ => {
                self.kept = Some(index);
                (self.fields, self.calls, self.bytes) = (Fields::default(), Calls::default(), 0);
                self.finish_reason = None;
                true
            }
        }
    }

    fn take_delta(&mut self, delta: &str) -> Result<(), TooLarge> {
        if self.broken {
            // What came before is a partial reply; what comes now may have a gap in front.
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(size(delta));
        if self.bytes > MAX_BYTES {
            return Err(TooLarge);
        }
        let Some(delta) = Members::of(delta)? else {
            self.fail();
            return Ok(());
        };
        for (name, value) in delta {
            match &*name {
                "role" => self.take_role(value),
                // The index belongs to the stream.
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

    fn take_role(&mut self, json: &str) {
        let is_other = json.starts_with('"') && !matches!(json, "\"assistant\"" | "\"\"");
        if is_other && !std::mem::replace(&mut self.has_other_role, true) {
            role::warn();
        }
    }

    /// The message in the form that a unary response has, with the fields that are wanted.
    fn message(&self, with_calls: bool, wanted: impl Fn(&str, &Node) -> bool) -> Option<Message> {
        let mut json = String::from(r#"{"role":"assistant","content":"#);
        match self.fields.get("content") {
            Some(content) => content.write(&mut json),
            None => json.push_str("null"),
        }
        self.fields.write(&mut json, |name, node| name != "content" && wanted(name, node));
        if with_calls && !self.calls.is_empty() {
            json.push_str(",\"tool_calls\":");
            self.calls.write(&mut json);
        }
        json.push('}');
        Message::from_json(json).ok()
    }

    fn with_message(&self, message: Option<Message>) -> Reply {
        Reply {
            message,
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
        let message = self.kept.and_then(|_| self.message(true, |_, _| true));
        self.with_message(message)
    }

    /// The text so far. Of what has a structure half may be missing, so only content keeps one.
    fn partial(&self) -> Option<Reply> {
        let said = |name| self.fields.get(name).is_some_and(Node::says_something);
        if !said("content") && !said("refusal") {
            return None;
        }
        let mut reply = self.with_message(self.message(false, |_, node| node.is_text()));
        reply.incomplete = true;
        Some(reply)
    }
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
