//! The routes of the server.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json, value::RawValue};

use super::{Shared, body, recorded::RecordedRequest};
use crate::{
    provider::{Prompt, thinks},
    reply::{Api, ApiFailure, CREATED, NoReply, Reply, RequestParams, Transcript},
    util::lock,
};

/// The header that Anthropic's API requires.
const VERSION: &str = "anthropic-version";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/openai/deployments/{deployment}/chat/completions", post(chat))
        .route("/v1/messages", post(messages))
        .route("/v1/responses", post(responses))
        .route("/v1/embeddings", post(embeddings))
        .route("/openai/deployments/{deployment}/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        // Tests send long histories.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

async fn chat(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = RecordedRequest::new(uri, headers, String::from_utf8_lossy(&body).into_owned());
    let parsed = request.parsed();
    let streams = request.streams();
    let number = {
        let mut requests = lock(&shared.requests);
        requests.push(request);
        requests.len()
    };

    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.is_data() => {
            return failure(
                &ApiFailure::new(400, "The messages of the request are not as expected.").param("messages"),
            );
        }
        Err(_) => return failure(&ApiFailure::new(400, "We could not parse the JSON body of your request.")),
    };
    let Some(streams) = streams else { return no_stream(Api::Chat) };
    let Some(model) = parsed.model else {
        return failure(&ApiFailure::new(400, "you must provide a model parameter"));
    };

    let n = parsed.n.unwrap_or(1);
    if !(1..=128).contains(&n) {
        return failure(&ApiFailure::new(400, "Invalid 'n': expected an integer from 1 to 128.").param("n"));
    }

    let (reply, signer) = shared.replies.next(&Prompt {
        messages: &parsed.messages,
        tools: parsed.tools.as_deref().map(RawValue::get),
        thinks: thinks(parsed.thinking.as_ref()),
    });
    let params = RequestParams {
        number,
        model,
        n,
        include_usage: parsed.stream_options.and_then(|options| options.include_usage).unwrap_or_default(),
        prompt_bytes: RequestParams::prompt_bytes(&parsed.messages),
        signer,
    };

    reply.wait().await;
    let answer = if streams {
        reply.transcript(&params).map(streamed)
    } else {
        reply.completion(&params).map(|body| json_response(StatusCode::OK, body))
    };
    answer.unwrap_or_else(|reason| no_reply(reason, failure))
}

async fn messages(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
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

async fn responses(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
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
    let answer = made.and_then(|(body, events)| {
        if streams {
            Ok(streamed(reply.stream(api, events)))
        } else {
            Ok(json_response(StatusCode::OK, reply.whole(body)?))
        }
    });
    answer.unwrap_or_else(|reason| no_reply(reason, |error| failure_with(error, &error.json_of(api))))
}

async fn embeddings(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = RecordedRequest::new(uri, headers, String::from_utf8_lossy(&body).into_owned());
    match shared.embeddings.answer(request).await {
        Ok(answer) => json_response(StatusCode::OK, answer),
        Err(error) => failure(&error),
    }
}

async fn models() -> Response {
    let model = json!({ "id": "mock", "object": "model", "created": CREATED, "owned_by": "tower-chat-history-test" });
    json_response(StatusCode::OK, json!({ "object": "list", "data": [model] }).to_string())
}

async fn unknown(method: Method, uri: Uri) -> Response {
    failure(&ApiFailure::new(404, format!("Invalid URL ({method} {})", uri.path())).code("unknown_url"))
}

async fn not_allowed(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    let api = if path.ends_with("/messages") { Api::Messages } else { Api::Chat };
    let error = ApiFailure::new(405, format!("Not allowed to {method} on {path}.")).code("method_not_supported");
    failure_with(&error, &error.json_of(api))
}

/// Answers with the failure, or ends the connection.
fn no_reply(reason: NoReply, failure: impl Fn(&ApiFailure) -> Response) -> Response {
    match reason {
        NoReply::Failure(error) => failure(&error),
        // Unwinding ends the connection's task without a reply, like a panic of the handler. Unlike a panic, it prints
        // nothing to the output of the test.
        NoReply::Aborted => std::panic::resume_unwind(Box::new("the mock aborted the connection")),
        NoReply::Panic(message) => std::panic::resume_unwind(Box::new(message)),
    }
}

fn streamed(transcript: Transcript) -> Response {
    let body = Body::from_stream(body::server_sent_events(transcript));
    let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}

/// Returns the refusal of a request whose `stream` is not a boolean.
fn no_stream(api: Api) -> Response {
    let error = match api {
        Api::Messages => ApiFailure::new(400, "stream: Input should be a valid boolean"),
        Api::Chat | Api::Responses => {
            let message = "Invalid type for 'stream': expected a boolean.";
            ApiFailure::new(400, message).param("stream").code("invalid_type")
        }
    };
    failure_with(&error, &error.json_of(api))
}

fn failure(failure: &ApiFailure) -> Response {
    failure_with(failure, &failure.to_json())
}

/// Returns the response to a failed request, with this body.
fn failure_with(failure: &ApiFailure, body: &Value) -> Response {
    // If a status is invalid, the test has a mistake. The status is then 500.
    let status = StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(status, body.to_string());
    if let Some(secs) = failure.retry_after_secs() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(secs));
    }
    response
}

fn json_response(status: StatusCode, json: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
}
