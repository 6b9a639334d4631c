//! Calls of a provider over HTTP, without an SDK.

use std::{fmt, sync::Arc};

use bytes::{Buf as _, Bytes};
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, BodyStream, Full};
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn, util::BoxCloneSyncService};
use tower_chat_history::{
    BoxError, Message,
    http::{HistoryBody, MessagesWire, ResponsesWire, Wire},
    summary::{ServiceSummarizer, Summarizer},
    tokens::{ByteEstimate, Estimate, TokenCounter},
};
use tower_chat_history_test::{MockServer, Replies};

use crate::{extract::Extract, provider::var};

/// An API that is called without an SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpApi {
    /// Anthropic's Messages API
    Messages,
    /// OpenAI's Responses API
    Responses,
}

/// The environment variables of an API, and its defaults.
struct Names {
    key: &'static str,
    base_url: &'static str,
    default_url: &'static str,
    /// The path after the base URL.
    path: &'static str,
    model: &'static str,
    default_model: &'static str,
}

impl HttpApi {
    const fn names(self) -> Names {
        match self {
            Self::Messages => Names {
                key: "ANTHROPIC_API_KEY",
                base_url: "ANTHROPIC_BASE_URL",
                default_url: "https://api.anthropic.com",
                path: "/v1/messages",
                model: "ANTHROPIC_MODEL",
                default_model: "claude-haiku-5-5",
            },
            Self::Responses => Names {
                key: "OPENAI_API_KEY",
                base_url: "OPENAI_BASE_URL",
                default_url: "https://api.openai.com/v1",
                path: "/responses",
                model: "OPENAI_MODEL",
                default_model: "gpt-4o-mini",
            },
        }
    }

    /// Returns the headers of a request with this key.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be the value of a header.
    fn headers(self, key: &str) -> Result<HeaderMap, BoxError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));

        let (name, value) = match self {
            Self::Messages => (HeaderName::from_static("x-api-key"), key.to_owned()),
            Self::Responses => (header::AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value = HeaderValue::try_from(value)?;
        value.set_sensitive(true);
        headers.insert(name, value);

        if self == Self::Messages {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        Ok(headers)
    }

    /// Returns the body of a request with these messages or items. Anthropic requires a limit of the reply.
    #[must_use]
    pub fn body(self, model: &str, instructions: &str, input: &[Value], max_tokens: u32) -> Value {
        match self {
            Self::Messages => {
                json!({ "model": model, "max_tokens": max_tokens, "system": instructions, "messages": input })
            }
            // Nothing is stored at the provider: the layer sends the history. The item of a user has the same form as a
            // message of Anthropic's API.
            Self::Responses => json!({
                "model": model, "max_output_tokens": max_tokens, "store": false, "instructions": instructions,
                "input": input,
            }),
        }
    }

    /// Returns the text in an event of a stream.
    ///
    /// # Errors
    ///
    /// Fails if the event is an error.
    fn text(self, event: &Value) -> Result<Option<String>, BoxError> {
        let kind = event["type"].as_str().unwrap_or_default();
        let error = match (self, kind) {
            (Self::Messages, "content_block_delta") => return Ok(event["delta"]["text"].as_str().map(str::to_owned)),
            (Self::Responses, "response.output_text.delta" | "response.refusal.delta") => {
                return Ok(event["delta"].as_str().map(str::to_owned));
            }
            (Self::Messages, "error") => &event["error"]["message"],
            (Self::Responses, "error") => &event["message"],
            (Self::Responses, "response.failed") => &event["response"]["error"]["message"],
            _ => return Ok(None),
        };

        Err(format!("the provider reports: {}", error.as_str().unwrap_or("an error without a text")).into())
    }

    /// Returns the wire, which reads whole responses.
    fn wire(self) -> &'static dyn Wire {
        static MESSAGES: MessagesWire = MessagesWire::new();
        static RESPONSES: ResponsesWire = ResponsesWire::new();

        match self {
            Self::Messages => &MESSAGES,
            Self::Responses => &RESPONSES,
        }
    }
}

/// A provider of one API.
pub struct HttpProvider {
    /// The API.
    pub api: HttpApi,
    /// The name of the model.
    pub model: String,
    /// One line for the user about the provider.
    pub about: String,
    url: String,
    headers: HeaderMap,
    /// The mock server. It answers until it is dropped.
    mock: Option<MockServer>,
}

impl HttpProvider {
    /// Creates a provider from environment variables:
    ///
    /// | API | key | base URL | model |
    /// |---|---|---|---|
    /// | Messages | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL`, without `/v1` | `ANTHROPIC_MODEL` |
    /// | Responses | `OPENAI_API_KEY` | `OPENAI_BASE_URL`, with `/v1` | `OPENAI_MODEL` |
    ///
    /// Without the key, it is a mock model in this process. `mock` has its replies. `model` replaces the variable.
    ///
    /// # Errors
    ///
    /// Fails if the mock server cannot listen on this machine, or if the key cannot be sent in a header.
    pub async fn from_env(api: HttpApi, model: Option<String>, mock: Replies) -> Result<Self, BoxError> {
        let names = api.names();
        let model = model.or_else(|| var(names.model)).unwrap_or_else(|| names.default_model.into());

        let Some(key) = var(names.key) else {
            let server = MockServer::start(mock).await?;
            let url = format!("{}/{}", server.base_url(), names.path.trim_start_matches("/v1").trim_start_matches('/'));
            let about = format!("{} is not set: using a mock model that answers by simple rules.", names.key);
            return Ok(Self { api, model, about, url, headers: api.headers("mock")?, mock: Some(server) });
        };

        let base = var(names.base_url).unwrap_or_else(|| names.default_url.into());
        let base = base.trim_end_matches('/');
        let about = format!("Using {model} at {base}.");
        Ok(Self { api, model, about, url: format!("{base}{}", names.path), headers: api.headers(&key)?, mock: None })
    }

    /// Returns a client without history, for the inside of a layer.
    ///
    /// # Errors
    ///
    /// Fails if the system's certificates cannot be read.
    pub fn client(&self) -> Result<HttpClient, BoxError> {
        client(self.mock.is_some())
    }

    /// Returns a request with this body.
    ///
    /// # Errors
    ///
    /// Fails if the base URL is not a URL.
    pub fn request(&self, body: &Value) -> Result<Request<Full<Bytes>>, BoxError> {
        request(&self.url, &self.headers, body)
    }

    /// Returns a summarizer. It calls the provider's model. For the mock model, it is [`Extract`].
    ///
    /// # Errors
    ///
    /// Returns the error of [`client`](Self::client).
    pub fn summarizer(&self) -> Result<Arc<dyn Summarizer>, BoxError> {
        if self.mock.is_some() {
            // The layer counts in the same way, if it has no other counter.
            let counter: Arc<dyn TokenCounter> = match Estimate::for_model(&self.model) {
                Some(estimate) => Arc::new(estimate),
                None => Arc::new(ByteEstimate::new()),
            };
            return Ok(Arc::new(Extract::new(counter)));
        }

        let client = self.client()?;
        let url = self.url.clone();
        let headers = self.headers.clone();
        let service = service_fn(move |body: Value| {
            let client = client.clone();
            let request = request(&url, &headers, &body);
            async move { whole_body(client.oneshot(request?.map(HistoryBody::new)).await?).await }
        });

        let api = self.api;
        let model = self.model.clone();
        let summarizer = ServiceSummarizer::new(
            service,
            move |prompt: Vec<Message>, max_tokens: u32| summary_body(api, &model, &prompt, max_tokens),
            move |body: &Bytes| api.wire().reply(body),
        );
        Ok(Arc::new(summarizer.model(self.model.clone())))
    }

    /// Stops the mock server, if there is one.
    pub async fn shutdown(self) {
        if let Some(mock) = self.mock {
            mock.shutdown().await;
        }
    }
}

fn request(url: &str, headers: &HeaderMap, body: &Value) -> Result<Request<Full<Bytes>>, BoxError> {
    let mut request = Request::post(url).body(Full::from(body.to_string()))?;
    request.headers_mut().extend(headers.clone());
    Ok(request)
}

/// Returns the body of a request for a summary. The prompt's instructions have a field of their own in both APIs.
fn summary_body(api: HttpApi, model: &str, prompt: &[Message], max_tokens: u32) -> Value {
    let mut instructions = String::new();
    let mut input = Vec::new();
    for message in prompt {
        if message.is_instruction() {
            instructions.push_str(&message.text());
        } else {
            input.push(json!({ "role": "user", "content": message.text() }));
        }
    }
    api.body(model, &instructions, &input, max_tokens)
}

/// Returns the body of a successful response.
async fn whole_body(response: Response<reqwest::Body>) -> Result<Bytes, BoxError> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if status.is_success() { Ok(body) } else { Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()) }
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider").field("about", &self.about).finish_non_exhaustive()
    }
}

/// A client for the inside of a history layer.
pub type HttpClient = BoxCloneSyncService<Request<HistoryBody>, Response<reqwest::Body>, BoxError>;

/// Creates a client of reqwest. A local server is called without a proxy.
///
/// # Errors
///
/// Fails if the system's certificates cannot be read.
pub fn client(is_local: bool) -> Result<HttpClient, BoxError> {
    let builder = reqwest::Client::builder();
    let client = if is_local { builder.no_proxy() } else { builder }.build()?;

    let service = service_fn(move |request: Request<HistoryBody>| send(client.clone(), request));
    Ok(BoxCloneSyncService::new(service))
}

async fn send(client: reqwest::Client, request: Request<HistoryBody>) -> Result<Response<reqwest::Body>, BoxError> {
    let request = reqwest::Request::try_from(request.map(reqwest::Body::wrap))?;
    Ok(Response::from(client.execute(request).await?))
}

/// Returns the pieces of text in a streamed response.
///
/// # Errors
///
/// Fails if the status is an error. The text has the provider's answer.
pub async fn texts(
    api: HttpApi,
    response: Response<HistoryBody>,
) -> Result<impl Stream<Item = Result<String, BoxError>> + Send + 'static, BoxError> {
    let status = response.status();
    if !status.is_success() {
        let body = response.into_body().collect().await?.to_bytes();
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }

    let pieces = Pieces { api, frames: BodyStream::new(response.into_body()), buffer: Vec::new() };
    Ok(stream::try_unfold(pieces, |mut pieces| async move {
        Ok::<_, BoxError>(pieces.next().await?.map(|text| (text, pieces)))
    }))
}

/// The rest of a streamed response.
struct Pieces {
    api: HttpApi,
    frames: BodyStream<HistoryBody>,
    /// The bytes that have arrived and are not read yet.
    buffer: Vec<u8>,
}

impl Pieces {
    /// Returns the next piece of text, or `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<String>, BoxError> {
        loop {
            while let Some(event) = next_event(&mut self.buffer) {
                if let Some(text) = self.api.text(&event)? {
                    return Ok(Some(text));
                }
            }

            let Some(frame) = self.frames.next().await else { return Ok(None) };
            if let Ok(mut data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
        }
    }
}

/// Removes the first whole event, and returns its data. Both APIs end each event with an empty line.
fn next_event(buffer: &mut Vec<u8>) -> Option<Value> {
    let end = buffer.windows(2).position(|two| two == b"\n\n")? + 2;
    let event: Vec<u8> = buffer.drain(..end).collect();
    let event = String::from_utf8_lossy(&event);
    let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or("null");
    Some(serde_json::from_str(data).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_when_they_are_whole() {
        let mut buffer = b": ping\n\nevent: a\ndata: {\"type\":\"a\"}\n\ndata: {\"ty".to_vec();
        assert_eq!(next_event(&mut buffer), Some(Value::Null));
        assert_eq!(next_event(&mut buffer).unwrap()["type"], "a");
        assert_eq!(next_event(&mut buffer), None);
        buffer.extend_from_slice(b"pe\":\"b\"}\n\n");
        assert_eq!(next_event(&mut buffer).unwrap()["type"], "b");
        assert!(buffer.is_empty());
    }

    #[test]
    fn an_error_event_is_an_error() {
        for (api, event) in [
            (HttpApi::Messages, r#"{"type":"error","error":{"message":"Overloaded"}}"#),
            (HttpApi::Responses, r#"{"type":"error","message":"Overloaded"}"#),
            (HttpApi::Responses, r#"{"type":"response.failed","response":{"error":{"message":"Overloaded"}}}"#),
        ] {
            let error = api.text(&serde_json::from_str(event).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), "the provider reports: Overloaded");
        }
    }
}
