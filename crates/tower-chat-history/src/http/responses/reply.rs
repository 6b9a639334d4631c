//! The reply: in a whole response, and in the events of a stream. Also refusals of items that the provider cannot read.

use std::{borrow::Cow, collections::BTreeMap};

use tower_chat_history_core::{
    Message,
    json::{BOM, Object, raw_entries},
};

use crate::{
    adapt::{Flow, FoldReply, completion},
    call::Reply,
    dialect::{MessageError, OpenAiResponses},
    http::sse::Event,
    report::ResponseShape,
    store::Usage,
};

/// Returns the reply in the body of a whole response.
pub(super) fn of_body(body: &[u8]) -> Reply {
    let body = body.strip_prefix(BOM).unwrap_or(body);
    match std::str::from_utf8(body) {
        Ok(body) => of_response(body, None, false),
        Err(_) => Reply::unreadable(ResponseShape::NotJson),
    }
}

/// The items that were finished in a stream, or the shape of the response if some of them are missing.
type StreamItems = Result<Vec<Message>, ResponseShape>;

/// Returns the reply of a response: all items of `output`, verbatim and in order. `finished` is used in place of an
/// output that is missing or empty: some gateways leave it out of the last event of a stream. `is_ended` is true if the
/// response has ended, whatever its status.
fn of_response(json: &str, finished: Option<StreamItems>, is_ended: bool) -> Reply {
    let Some(response) = Object::read(json) else { return Reply::unreadable(shape(json)) };
    let mut reply = Reply { model: response.string("model"), usage: usage(&response), ..Reply::default() };
    let status = response.string("status");
    let reason = response.object("incomplete_details").and_then(|details| details.string("reason"));
    reply.finish_reason = reason.or_else(|| status.clone());
    match status.as_deref() {
        Some("failed" | "cancelled") => {
            reply.unreadable = Some(ResponseShape::Error);
            return reply;
        }
        // A response in the background has no reply yet.
        Some("queued" | "in_progress") if !is_ended => return reply,
        _ => {}
    }

    let entries = response.get("output").and_then(raw_entries);
    let items = match (entries, finished) {
        (Some(entries), finished) if !entries.is_empty() || finished.is_none() => {
            let items = entries.into_iter().map(|entry| Message::in_dialect_raw(&OpenAiResponses, entry.to_owned()));
            items.collect::<Result<_, _>>().map_err(|_| ResponseShape::NoMessage)
        }
        (_, Some(finished)) => finished,
        (_, None) => Err(shape(json)),
    };
    match items {
        Ok(items) => reply.messages = items,
        Err(shape) => reply.unreadable = Some(shape),
    }
    reply
}

/// Reads an item of a response.
fn item(json: &str) -> Result<Message, MessageError> {
    Message::in_dialect(&OpenAiResponses, json)
}

fn usage(response: &Object<'_>) -> Option<Usage> {
    let tokens = response.object("usage")?;
    let mut usage = Usage::new(tokens.number("input_tokens")?, tokens.number("output_tokens").unwrap_or(0));
    let details = tokens.object("input_tokens_details");
    usage.cached_input_tokens = details.and_then(|details| details.number("cached_tokens"));
    Some(usage)
}

/// Returns the shape of a body without `output`.
fn shape(json: &str) -> ResponseShape {
    completion::reply_of(json.as_bytes()).unreadable.unwrap_or(ResponseShape::NoMessage)
}

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
    /// `true` if items are missing because all of them together are too large.
    is_too_large: bool,
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
    /// Adds the item of `response.output_item.done`. An item without an index follows those that came before it.
    fn finish(&mut self, index: Option<u64>, json: &str) {
        let last = self.items.last_key_value();
        let index = index.unwrap_or_else(|| last.map_or(0, |(last, _)| last.saturating_add(1)));
        self.bytes = self.bytes.saturating_add(json.len() + ITEM_BYTES);
        if self.bytes <= MAX_BYTES {
            self.items.insert(index, item(json).ok());
        } else if !self.is_too_large {
            // This item and those after it are missing.
            self.items.split_off(&index);
            self.is_too_large = true;
        }
    }

    /// Ends the reply with the response of the last event.
    fn end(&mut self, kind: &str, response: Option<&str>) {
        let finished = self.finished();
        self.reply = of_response(response.unwrap_or("{}"), finished, true);
        let is_complete = self.state == State::Open && kind != "response.failed";
        self.state = State::Ended { is_complete };
    }

    /// Returns all finished items, or `None` if there are none.
    fn finished(&self) -> Option<StreamItems> {
        let items: Vec<Message> = self.in_order().collect();
        let is_whole = items.len() == self.items.len() && !self.is_too_large;
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
        if event.name() == b"error" {
            self.state = State::Failed;
            return Flow::Pass;
        }
        let data = std::str::from_utf8(event.data()).unwrap_or_default();
        let Some(data) = Object::read(data) else { return Flow::Pass };
        // The type in the data counts, because clients read it. Some gateways leave it out.
        let kind = data.text("type").or_else(|| std::str::from_utf8(event.name()).ok().map(Cow::Borrowed));
        match &*kind.unwrap_or_default() {
            "response.created" => {
                self.reply.model = data.object("response").and_then(|response| response.string("model"));
            }
            "response.output_item.done" => {
                if let Some(item) = data.get("item") {
                    self.finish(data.number("output_index"), item);
                }
            }
            kind @ ("response.completed" | "response.incomplete" | "response.failed") => {
                self.end(kind, data.get("response"));
                return Flow::Hold;
            }
            "error" => self.state = State::Failed,
            "" if data.get("error").is_some() => self.state = State::Failed,
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

    /// Returns the finished items up to the first call, if they say something.
    fn partial(&self) -> Option<Reply> {
        let mut reply = self.reply.clone();
        reply.messages = self.in_order().take_while(|item| item.tool_calls().is_empty()).collect();
        while reply.messages.last().is_some_and(|item| item.bound().to_next) {
            // It needs the next item.
            reply.messages.pop();
        }
        reply.incomplete = true;
        reply.unreadable = None;
        reply.messages.iter().any(|item| !item.text().is_empty()).then_some(reply)
    }
}
