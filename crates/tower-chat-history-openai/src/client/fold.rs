//! Folding a stream of events into the reply.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tower_chat_history::{
    Message, Reply, Usage,
    adapt::{Flow, FoldReply},
};

use super::{
    delta::{Fields, Node, index_of},
    reply::{text, usage},
    sse::{Event, Events},
};

/// Collects the first choice from the bytes of a stream.
#[derive(Default)]
pub(super) struct SseFold {
    events: Events,
    state: Folded,
}

#[derive(Default)]
struct Folded {
    /// How many choices must end.
    choices: usize,
    ended: BTreeSet<u64>,
    /// All of the first choice but its calls.
    fields: Fields,
    /// By index, and in the order of arrival where a provider gives all the same index.
    calls: Vec<(u64, Fields)>,
    model: Option<String>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    /// Whether an event was an error or could not be read: what it said is missing.
    broken: bool,
    done: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<ChoiceDelta<'a>>>,
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChoiceDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    /// Some gateways tell here that the model failed.
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Calls<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<&'a RawValue>>,
}

impl SseFold {
    pub(super) fn new(choices: usize) -> Self {
        Self { events: Events::default(), state: Folded { choices, ..Folded::default() } }
    }
}

impl Folded {
    fn take(&mut self, event: &Event) {
        if self.done || event.name == b"keepalive" {
            return;
        }
        if event.data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return;
        }
        let chunk = std::str::from_utf8(&event.data).ok().and_then(|data| serde_json::from_str::<Chunk<'_>>(data).ok());
        match chunk {
            Some(chunk) if chunk.error.is_none() && event.name != b"error" => self.push(&chunk),
            // Behind the last finish reason nothing is missing from the reply, however the bytes are cut.
            _ => self.broken |= !self.all_ended(),
        }
    }

    fn all_ended(&self) -> bool {
        self.ended.len() >= self.choices.max(1)
    }

    fn push(&mut self, chunk: &Chunk<'_>) {
        if self.model.is_none() {
            self.model = chunk.model.and_then(text);
        }
        self.usage = chunk.usage.and_then(usage).or(self.usage);
        for choice in chunk.choices.iter().flatten() {
            let index = choice.index.unwrap_or(0);
            self.broken |= choice.error.is_some();
            if let (0, Some(delta)) = (index, choice.delta) {
                self.push_delta(delta.get());
            }
            if let Some(reason) = choice.finish_reason.and_then(text) {
                self.ended.insert(index);
                if index == 0 {
                    self.finish_reason = Some(reason);
                }
            }
        }
    }

    fn push_delta(&mut self, delta: &str) {
        self.fields.join_but(delta, 0, |name| name == "tool_calls");
        match serde_json::from_str::<Calls<'_>>(delta) {
            Ok(calls) => calls.tool_calls.iter().flatten().for_each(|call| self.push_call(call.get())),
            Err(_) => self.broken |= !delta.starts_with("null"),
        }
    }

    fn push_call(&mut self, json: &str) {
        let mut piece = Fields::default();
        piece.join(json, 0);
        let (index, id) = (index_of(json).unwrap_or(0), piece.text("id"));
        // Some compatible providers number every parallel call 0: another id is then another call.
        let same = |(other, call): &(u64, Fields)| {
            *other == index && (id.is_empty() || call.text("id").is_empty() || call.text("id") == id)
        };
        let at = self.calls.iter().rposition(same).unwrap_or_else(|| {
            let at = self.calls.partition_point(|(other, _)| *other <= index);
            self.calls.insert(at, (index, Fields::default()));
            at
        });
        // The index numbers pieces: a whole call has none.
        self.calls[at].1.join_but(json, 0, |name| name == "index");
    }

    /// The message in the form that an unary response has: role and content first, the rest as it came, then the calls.
    fn message(&self, with_calls: bool) -> Option<Message> {
        let mut json = String::from("{\"role\":");
        let role = self.fields.get("role").filter(|role| matches!(role, Node::Text(role) if !role.is_empty()));
        role.unwrap_or(&Node::Text("assistant".to_owned())).write(&mut json);
        json.push_str(",\"content\":");
        self.fields.get("content").unwrap_or(&Node::Raw("null".to_owned())).write(&mut json);
        let rest = |name: &str| !matches!(name, "role" | "content") && (with_calls || name != "function_call");
        self.fields.write(&mut json, rest);
        if with_calls && !self.calls.is_empty() {
            json.push_str(",\"tool_calls\":");
            Node::List(self.calls.iter().map(|(_, call)| whole_call(call)).collect()).write(&mut json);
        }
        json.push('}');
        Message::from_json(json).ok()
    }

    fn with_message(&self, message: Option<Message>) -> Reply {
        let mut reply = Reply::default();
        reply.message = message;
        reply.model.clone_from(&self.model);
        reply.finish_reason.clone_from(&self.finish_reason);
        reply.usage = self.usage;
        reply
    }
}

/// A call with its type, which some providers leave out of a stream and all want to see when it is sent back.
fn whole_call(call: &Fields) -> Node {
    let mut call = call.clone();
    if call.text("type").is_empty() {
        let kind = if call.get("custom").is_some() { "custom" } else { "function" };
        call.0.retain(|(name, _)| name != "type");
        call.0.push(("type".to_owned(), Node::Text(kind.to_owned())));
    }
    Node::Object(call)
}

impl FoldReply<Bytes> for SseFold {
    fn push(&mut self, bytes: &Bytes) -> Flow {
        let was_done = self.state.done;
        let state = &mut self.state;
        self.events.push(bytes, |event| state.take(event));
        if self.state.done && !was_done { Flow::Hold } else { Flow::Pass }
    }

    fn is_complete(&self) -> bool {
        !self.state.broken && self.state.all_ended()
    }

    fn is_whole(&self) -> bool {
        !self.state.broken && self.state.ended.contains(&0)
    }

    fn reply(&self) -> Reply {
        self.state.with_message(self.state.message(true))
    }

    fn partial(&self) -> Option<Reply> {
        let said = |name| match self.state.fields.get(name) {
            Some(Node::Text(text)) => !text.is_empty(),
            Some(node) => !node.is_null(),
            None => false,
        };
        let any = ["content", "refusal"].into_iter().any(said);
        let mut reply = any.then(|| self.state.with_message(self.state.message(false)))?;
        reply.incomplete = true;
        Some(reply)
    }
}
