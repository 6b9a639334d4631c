//! Folding the events of a response into a reply.

use std::collections::BTreeMap;

use tower_chat_history::{
    Message, Reply,
    adapt::{Flow, FoldReply},
    report::ResponseShape,
};

use super::{
    members::{Members, number, text},
    reply::{self, Finished},
};
use crate::sse::Event;

/// The largest total size of the finished items, in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The memory that an item takes in addition to its JSON, in bytes.
const ITEM_BYTES: usize = 1 << 10;

/// The fold of a response's events. The last event has the whole response. The finished items are kept for streams
/// without a last event.
#[derive(Debug, Default)]
pub(super) struct ResponsesFold {
    /// The finished items by `output_index`. `None` for an item that cannot be read.
    items: BTreeMap<u64, Option<Message>>,
    /// The bytes of the items.
    bytes: usize,
    /// The facts about the reply, and its items after the last event.
    reply: Reply,
    state: State,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Open,
    /// An error event has come. The last event may still come.
    Failed,
    /// The last event has come.
    Ended { is_complete: bool },
}

impl ResponsesFold {
    /// Adds the item of `response.output_item.done`.
    fn finish(&mut self, index: Option<&str>, item: Option<&str>) {
        let (Some(index), Some(json)) = (number(index), item) else { return };
        self.bytes = self.bytes.saturating_add(json.len() + ITEM_BYTES);
        if self.bytes <= MAX_BYTES {
            self.items.insert(index, reply::item(json).ok());
        } else {
            // The item is missing from then on, so that no item after it is kept.
            self.items.insert(index, None);
            self.bytes = MAX_BYTES;
        }
    }

    /// Ends the reply with the response of the last event.
    fn end(&mut self, kind: &str, response: Option<&str>) {
        let finished = self.finished();
        self.reply = reply::of_response(response.unwrap_or("{}"), finished);
        let is_complete = self.state == State::Open && kind != "response.failed";
        self.state = State::Ended { is_complete };
    }

    /// Returns all finished items, or `None` if there are none.
    fn finished(&self) -> Option<Finished> {
        let items: Vec<Message> = self.in_order().collect();
        let is_whole = items.len() == self.items.len();
        (!self.items.is_empty()).then_some(if is_whole { Ok(items) } else { Err(ResponseShape::NoMessage) })
    }

    /// Returns the finished items up to the first one that is missing: an item may need the one before it.
    fn in_order(&self) -> impl Iterator<Item = Message> {
        let items = self.items.iter().zip(0..);
        items.map_while(|((index, item), expected)| item.clone().filter(|_| *index == expected))
    }
}

impl FoldReply<Event> for ResponsesFold {
    fn push(&mut self, event: &Event) -> Flow {
        if matches!(self.state, State::Ended { .. }) {
            return Flow::Pass;
        }
        let data = std::str::from_utf8(event.data()).unwrap_or_default();
        let members = Members::read(data, ["type", "response", "output_index", "item", "error"]);
        let [kind, response, index, item, error] = members.map(|members| members.values).unwrap_or_default();
        // The type in the data counts, because clients read it. Some gateways leave it out.
        let kind = text(kind).or_else(|| std::str::from_utf8(event.name()).ok().map(str::to_owned));
        match kind.as_deref().unwrap_or_default() {
            "response.created" => {
                let model = response.and_then(|response| Members::read(response, ["model"]).ok());
                self.reply.model = model.and_then(|model| text(model.values[0]));
            }
            "response.output_item.done" => self.finish(index, item),
            kind @ ("response.completed" | "response.incomplete" | "response.failed") => {
                self.end(kind, response);
                return Flow::Hold;
            }
            "error" => self.state = State::Failed,
            "" if error.is_some() => self.state = State::Failed,
            _ => {}
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.state == State::Ended { is_complete: true }
    }

    fn is_whole(&self) -> bool {
        self.is_complete()
    }

    fn reply(&self) -> Reply {
        self.reply.clone()
    }

    /// Returns the finished items, unless they are only reasoning.
    fn partial(&self) -> Option<Reply> {
        let mut reply = self.reply.clone();
        reply.messages = self.in_order().collect();
        (reply.incomplete, reply.unreadable) = (true, None);
        reply.messages.iter().any(|item| !item.bound().to_next).then_some(reply)
    }
}
