//! The wire of OpenAI's Responses API.

mod body;
mod fold;
mod repair;
mod reply;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{StatusCode, Uri};

use self::fold::ResponsesFold;
use crate::{
    adapt::{FoldReply, Repair},
    call::Reply,
    dialect::{Dialect, OpenAiResponses},
    engine::InputMode,
    http::{
        error::CallError,
        openai,
        refusal::Refusal,
        sse::Event,
        wire::{OpenedBody, Wire},
    },
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
/// then refuses every later call. Such a call is [repaired](crate::adapt::Repair::WithoutEncrypted): it is
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
        openai::provider(uri)
    }

    fn open(&self, body: Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
        body::open(&body, mode, few_shot_messages)
    }

    fn reply(&self, body: &[u8]) -> Reply {
        reply::of_body(body)
    }

    fn fold(&self, _: usize) -> Box<dyn FoldReply<Event>> {
        Box::new(ResponsesFold::default())
    }

    fn repair(&self, _: StatusCode, body: &[u8]) -> Option<Repair> {
        repair::of_refusal(body)
    }

    fn refusal(&self, refusal: &Refusal) -> String {
        openai::refusal(refusal)
    }
}
