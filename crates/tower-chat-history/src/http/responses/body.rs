//! The body of a request: its items, and the place of the window among them.

use bytes::Bytes;
use tower_chat_history_core::{
    Message,
    json::{Object, range, raw_entries},
};

use crate::{
    adapt::RequestMessages,
    dialect::OpenAiResponses,
    engine::{InputMode, RequestInfo},
    http::{
        error::CallError,
        list::gap,
        splice::{Gap, Splice},
        wire::OpenedBody,
    },
};

/// Finds the items, and the other fields that count for a budget or that spans report. Other values are not checked
/// here; the provider checks them.
pub(super) fn open(bytes: &Bytes, mode: InputMode, few_shot_messages: usize) -> Result<OpenedBody, CallError> {
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
