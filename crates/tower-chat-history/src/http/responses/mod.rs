//! The wire of OpenAI's Responses API.

mod reply;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::Uri;
use tower_chat_history_core::{
    Message,
    json::{Object, range, raw_entries},
};

use self::reply::ResponsesFold;
use super::{
    chat::{openai_provider, openai_refusal},
    error::{CallError, Refusal},
    splice::{Gap, Splice, gap},
    sse::Event,
    wire::{OpenedBody, Wire},
};
use crate::{
    adapt::{FoldReply, RequestMessages},
    call::Reply,
    dialect::{Dialect, OpenAiResponses},
    engine::{InputMode, RequestInfo},
};

/// The wire of OpenAI's Responses API, for requests that carry the whole conversation (`"store":false`).
///
/// # Requests
///
/// The items are the list `input`. If `input` is a text, it counts as one user item. If there is a window, a list takes
/// the place of the text. `instructions` and the leading items of the roles `developer` and `system` are the head. The
/// limit of the reply is `max_output_tokens`. All other fields stay as they are, also `store`.
///
/// With `previous_response_id` or `conversation`, the provider keeps the conversation, and would have each item twice.
/// Such a request fails with [`CallError::ServerState`], or [passes through](crate::http::OnServerState).
///
/// # Replies
///
/// The reply is every item of `output`, byte for byte and in order. The finish reason is
/// `incomplete_details.reason`, or otherwise `status`. As of November 2026:
///
/// | `status` | stored |
/// |---|---|
/// | `completed`, `incomplete`, any other, or none | the items |
/// | `failed`, `cancelled` | nothing: [`ResponseShape::Error`](crate::report::ResponseShape::Error) |
/// | `queued`, `in_progress` (`"background":true`), in a whole response | nothing: [`NoReply`](crate::report::NotStored::NoReply) |
///
/// A stream ends with `response.completed`, `response.incomplete` or `response.failed`. The response in this event is
/// read like a whole response. If its `output` is empty or missing, the items of `response.output_item.done` take its
/// place. A stream that ends otherwise, or after an event `error`, is an
/// [interruption](crate::policy::OnInterruption). With `KeepText`, the finished items are then stored if
/// they have text. They are in the order of `output_index`, up to the first call, or the first item that is missing.
///
/// ```
/// use tower_chat_history::http::{ResponsesWire, Wire};
///
/// let response = br#"{
///     "status": "completed",
///     "output": [
///         {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
///         {"type": "message", "id": "msg_1", "role": "assistant", "phase": "final_answer", "content": []}
///     ]
/// }"#;
/// let reply = ResponsesWire::new().reply(response);
/// assert_eq!((reply.messages.len(), reply.finish_reason.as_deref()), (2, Some("completed")));
/// assert!(reply.messages[1].json().contains(r#""phase": "final_answer""#));
/// ```
///
/// # Encrypted items
///
/// A provider may become unable to read items that it made, for example with another key or behind another gateway. It
/// then refuses every later call. Such a call is [repaired](crate::refusal::Remedy::WithoutEncrypted): it is
/// repeated once, without reasoning and compactions of stored replies, and without the ids of their items. If it
/// succeeds, the exchange is stored with a [cut](crate::store::Positions::encrypted_from), so no later call of
/// the profile sends them. As of November 2026, these refusals are repaired:
///
/// | status | `error` |
/// |---|---|
/// | 4xx, usually 400 | the code `invalid_encrypted_content` |
/// | 4xx, usually 404 or 400 | a message `Item with id '...' not found.`, which may continue. With `"store":true` or an id alone, items are in the provider's storage, and may be lost there. |
///
/// The refusal is an error status also for a stream. An event `error` or `response.failed` within a stream is not
/// repaired, because the caller has received earlier events of it.
///
/// # Limits
///
/// - A request without `input`, such as one with only a `prompt` template, fails with [`CallError::Body`].
/// - If a caller resends its list, an item of an unknown type after the last item of a reply counts as input.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ResponsesWire;

impl ResponsesWire {
    /// Creates the wire.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Wire for ResponsesWire {
    fn dialect(&self) -> &'static dyn Dialect {
        &OpenAiResponses
    }

    /// Returns `azure.ai.openai` for Azure's hosts, and for a deployment in the path, and `openai` for all others.
    fn provider(&self, uri: &Uri) -> &'static str {
        openai_provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        open(&body, mode, few_shot_messages)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        reply::of_body(body)
    }

    fn fold(&self, _: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(ResponsesFold::default())
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        openai_refusal(refusal)
    }
}

/// Finds the items, and the other fields that count for a budget or that spans report. Other values are not checked
/// here; the provider checks them.
fn open(bytes: &Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
    let body = CallError::text(bytes)?;
    let fields = Object::parse(body).map_err(CallError::body)?;
    for field in ["previous_response_id", "conversation"] {
        if fields.get(field).is_some() {
            return Err(CallError::ServerState { field });
        }
    }
    let input = fields.get("input").ok_or_else(|| CallError::no_list(body))?;
    if fields.repeats("input") {
        // It is unknown which of two inputs is meant.
        return Err(CallError::body_at(body, range(body, input).start));
    }

    let Input { mut messages, gap, end } = if input.starts_with('"') {
        Input::of_text(body, input)?
    } else {
        Input::of_list(body, input, mode, few_shot_messages)?
    };
    if let Some(instructions) = fields.get("instructions") {
        messages.head.insert(0, item(0, format!(r#"{{"role":"developer","content":{instructions}}}"#))?);
    }

    let tokens = fields.number("max_output_tokens");
    let mut info = RequestInfo::new();
    info.model = fields.string("model");
    info.tools = fields.get("tools").map(str::to_owned);
    let format = fields.object("text").and_then(|text| text.get("format"));
    info.response_format = format.map(str::to_owned);
    info.max_output = tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
    info.temperature = fields.finite("temperature");
    info.top_p = fields.finite("top_p");

    let limit = fields.get("max_output_tokens").filter(|_| tokens.is_some()).map(|limit| range(body, limit));
    let mut splice = Splice::new(bytes.clone(), gap)?.reply_limit(limit)?;
    if let Some(end) = end {
        splice = splice.insert(end, "}]")?;
    }
    Ok(OpenedBody { info, ..OpenedBody::new(splice, messages) })
}

/// The input of a request.
struct Input {
    messages: RequestMessages,
    gap: Gap,
    /// The position at which a text ends that becomes the content of a user item.
    end: Option<usize>,
}

impl Input {
    /// Reads a text. It becomes a user item in a list if there is a window.
    fn of_text(body: &str, input: &str) -> Result<Self, CallError> {
        let messages = RequestMessages::new_input(vec![item(0, format!(r#"{{"role":"user","content":{input}}}"#))?]);
        let place = range(body, input);
        let after = r#",{"role":"user","content":"#;
        let gap = Gap { range: place.start..place.start, before: "[", after, empty: None };
        Ok(Self { messages, gap, end: Some(place.end) })
    }

    fn of_list(body: &str, input: &str, mode: InputMode, few_shot_messages: usize) -> Result<Self, CallError> {
        let list = range(body, input);
        let elements = raw_entries(input).ok_or_else(|| CallError::body_at(body, list.start))?;
        let ranges: Vec<_> = elements.iter().map(|element| range(body, element.get())).collect();
        let items = elements.iter().enumerate().map(|(position, &element)| {
            let item = Message::in_dialect_raw(&OpenAiResponses, element.to_owned());
            item.map_err(|source| CallError::Message { position, source })
        });
        let messages = RequestMessages::split(items.collect::<Result<_, _>>()?, few_shot_messages, mode);
        let gap = gap(&list, &ranges, &messages.transcript_range());
        Ok(Self { messages, gap, end: None })
    }
}

fn item(position: usize, json: String) -> Result<Message, CallError> {
    Message::in_dialect(&OpenAiResponses, json).map_err(|source| CallError::Message { position, source })
}
