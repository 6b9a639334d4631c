//! Folding the events of a stream into a reply.

use std::{borrow::Cow, collections::HashMap, fmt};

use tower_chat_history_core::{Message, json::Object};

use super::{
    block::{self, Block},
    partial,
    reply::{self, Counts},
};
use crate::{
    adapt::{Flow, FoldReply, completion},
    call::Reply,
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
        let is_finished = || !self.blocks.is_empty() && self.blocks.iter().all(|block| block.is_finished);
        self.has_begun && (self.stop_reason.is_some() || self.has_message_stop && is_finished())
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
        let named = || std::str::from_utf8(event.name()).ok().map(Cow::Borrowed);
        match &*object.text("type").or_else(named).unwrap_or_default() {
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
        self.bytes = self.bytes.saturating_add(block::size_of(json.as_bytes()));
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
        self.bytes.saturating_add(block::size_of(event.data())) <= MAX_BYTES
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
    reply::said(&content)
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
        let kept = partial::kept(&self.blocks);
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
