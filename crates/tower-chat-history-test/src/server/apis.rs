//! The routes of Anthropic's Messages API and of OpenAI's Responses API.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};
use serde_json::Value;

use super::{
    Shared,
    recorded::RecordedRequest,
    routes::{failure_with, json_response, no_reply, streamed},
};
use crate::{
    lock::lock,
    reply::{Api, ApiFailure, NoReply, Reply},
};

/// The header that Anthropic's API requires.
const VERSION: &str = "anthropic-version";

pub(super) async fn messages(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = record(&shared, uri, headers, &body);
    if request.header(VERSION).is_none() {
        let missing = ApiFailure::new(400, format!("{VERSION}: header is required"));
        return failure_with(&missing, &missing.json_of(Api::Messages));
    }
    let (reply, made) = shared.replies.next_message(request.body(), &request.messages());
    reply.wait().await;
    let made = made.map(|made| (made.body(), made.events(reply.delta_chars())));
    answer(Api::Messages, &request, &reply, made)
}

pub(super) async fn responses(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = record(&shared, uri, headers, &body);
    let (reply, made) = shared.replies.next_response(request.body(), &request.messages());
    reply.wait().await;
    let made = made.map(|made| (made.body(), made.events(reply.delta_chars())));
    answer(Api::Responses, &request, &reply, made)
}

fn record(shared: &Shared, uri: Uri, headers: HeaderMap, body: &Bytes) -> RecordedRequest {
    let request = RecordedRequest::new(uri, headers, String::from_utf8_lossy(body).into_owned());
    lock(&shared.requests).push(request.clone());
    request
}

/// Returns the response with a body, or with its events.
fn answer(
    api: Api,
    request: &RecordedRequest,
    reply: &Reply,
    made: Result<(String, Vec<String>), NoReply>,
) -> Response {
    let streams = request.json()["stream"] == Value::Bool(true);
    let answered = made.and_then(|(body, events)| {
        if streams {
            Ok(streamed(reply.stream(api, events)))
        } else {
            Ok(json_response(StatusCode::OK, reply.whole(body)?))
        }
    });
    answered.unwrap_or_else(|reason| no_reply(reason, |error| failure_with(error, &error.json_of(api))))
}
