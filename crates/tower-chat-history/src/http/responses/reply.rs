//! Finding the reply in a response.

use serde_json::value::RawValue;
use tower_chat_history_core::{
    Message,
    json::{BOM, Object, raw_entries},
};

use crate::{adapt::completion, call::Reply, dialect::OpenAiResponses, report::ResponseShape, store::Usage};

/// Returns the reply in the body of a whole response.
pub(super) fn of_body(body: &[u8]) -> Reply {
    let body = body.strip_prefix(BOM).unwrap_or(body);
    match std::str::from_utf8(body) {
        Ok(body) => of_response(body, None, false),
        Err(_) => Reply::unreadable(ResponseShape::NotJson),
    }
}

/// The items that were finished in a stream, or the shape of the response if some of them are missing.
pub(super) type Finished = Result<Vec<Message>, ResponseShape>;

/// Returns the reply of a response: all items of `output`, verbatim and in order. `finished` is used in place of an
/// output that is missing or empty: some gateways leave it out of the last event of a stream. `is_ended` is true if the
/// response has ended, whatever its status.
pub(super) fn of_response(json: &str, finished: Option<Finished>, is_ended: bool) -> Reply {
    let Some(response) = Object::read(json) else { return Reply::unreadable(shape(json)) };
    let mut reply = Reply::default();
    reply.model = response.string("model");
    reply.usage = usage(&response);
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
            let item = |entry: &RawValue| Message::in_dialect_raw(&OpenAiResponses, entry.to_owned());
            let items: Result<_, _> = entries.into_iter().map(item).collect();
            items.map_err(|_| ResponseShape::NoMessage)
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
pub(super) fn item(json: &str) -> Result<Message, crate::dialect::MessageError> {
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
