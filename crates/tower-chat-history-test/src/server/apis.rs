//! The routes of Anthropic's Messages API and of OpenAI's Responses API.

use std::sync::Arc;

use super::{
    Shared,
    recorded::RecordedRequest,
    routes::{failure_with, json_response, no_reply, no_stream, streamed},
};
use crate::{
    lock::lock,
    reply::{Api, ApiFailure, NoReply, Reply},
};
use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::Response,
};

/// The header that Anthropic's API requires.
const VERSION: &str = "anthropic-version";

pub(super) async fn messages(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = record(&shared, uri, headers, &body);
    if request.header(VERSION).is_none() {
        let missing = ApiFailure::new(400, format!("{VERSION}: header is required"));
        return failure_with(&missing, &missing.json_of(Api::Messages));
    }
    let Some(streams) = request.streams() else { return no_stream(Api::Messages) };
    let (reply, made) = shared.replies.next_message(request.body(), &request.messages());
    reply.wait().await;
    let made = made.map(|made| (made.body(), made.events(reply.delta_chars())));
    answer(Api::Messages, streams, &reply, made)
}

pub(super) async fn responses(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = record(&shared, uri, headers, &body);
    let Some(streams) = request.streams() else { return no_stream(Api::Responses) };
    let (reply, made) = shared.replies.next_response(request.body(), &request.messages());
    reply.wait().await;
    let made = made.map(|made| (made.body(), made.events(reply.delta_chars())));
    answer(Api::Responses, streams, &reply, made)
}

fn record(shared: &Shared, uri: Uri, headers: HeaderMap, body: &Bytes) -> RecordedRequest {
    let request = RecordedRequest::new(uri, headers, String::from_utf8_lossy(body).into_owned());
    lock(&shared.requests).push(request.clone());
    request
}

/// Returns the response with a body, or with its events.
fn answer(api: Api, streams: bool, reply: &Reply, made: Result<(String, Vec<String>), NoReply>) -> Response {
    let answered = made.and_then(|(body, events)| {
        if streams {
            Ok(streamed(reply.stream(api, events)))
        } else {
            Ok(json_response(StatusCode::OK, reply.whole(body)?))
        }
    });
    answered.unwrap_or_else(|reason| no_reply(reason, |error| failure_with(error, &error.json_of(api))))
}
