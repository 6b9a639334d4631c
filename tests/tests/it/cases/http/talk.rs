//! A conversation with a real server, through one of two integrations.

use std::sync::Arc;

use async_openai::{Client, config::OpenAIConfig};
use futures_util::StreamExt as _;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use reqwest::{Body, Error};
use serde_json::{Value, json};
use tests::{CallKind, Storage, TypedRequest, reply_text, request, response_text};
use tower::{
    Layer as _, ServiceBuilder, ServiceExt as _,
    retry::{Policy, RetryLayer},
};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, InConversation, Message, TurnReport,
    adapt::extract::FromExtensions,
    http::{HistoryBody, HttpHistory},
};
use tower_chat_history_openai::{ChatService, ChatStreamService, OpenAi};
use tower_chat_history_test::{MockServer, Replies};

use super::short;
use crate::http_layer::HttpClient;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integration {
    /// The types of async-openai, around a client of it.
    Typed,
    /// The layer over HTTP requests, around a plain HTTP client.
    Http,
}

impl Integration {
    pub(super) const ALL: [Self; 2] = [Self::Typed, Self::Http];
}

/// A server, and the layer around a client of it.
pub(super) struct Talk {
    pub(super) server: MockServer,
    pub(super) id: ConversationId,
    layers: Layers,
}

enum Layers {
    Typed(ChatHistoryLayer<OpenAi>, Client<OpenAIConfig>),
    Http(ChatHistoryLayer<HttpHistory<FromExtensions>>),
}

/// The result of a call, read to its end.
pub(super) struct Received {
    /// The text of the first choice.
    pub(super) text: String,
    /// The number of choices with a finish reason.
    pub(super) finished: usize,
    /// The number of chunks before the first error in a stream.
    pub(super) error_at: Option<usize>,
    pub(super) report: Arc<TurnReport>,
}

impl Talk {
    pub(super) async fn start(integration: Integration, storage: &Storage, replies: impl Into<Replies>) -> Self {
        let server = MockServer::start(replies).await.unwrap();
        let store = storage.store.clone();
        let layers = match integration {
            Integration::Typed => {
                let config = OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test");
                Layers::Typed(ChatHistoryLayer::new(store, OpenAi::new()), Client::with_config(config))
            }
            Integration::Http => {
                let adapter = HttpHistory::new().extract_by(FromExtensions::new());
                Layers::Http(ChatHistoryLayer::new(store, adapter))
            }
        };
        Self { server, id: storage.conversation(), layers }
    }

    /// Asks a question.
    pub(super) async fn ask(&self, kind: CallKind, text: &str) -> Received {
        self.call(kind, &[Message::user(text)], 1).await.unwrap()
    }

    /// Makes a call with these messages, for this number of choices.
    pub(super) async fn call(&self, kind: CallKind, messages: &[Message], n: u8) -> Result<Received, BoxError> {
        match &self.layers {
            Layers::Typed(layer, client) => self.typed(layer, client, kind, messages, n).await,
            Layers::Http(layer) => self.http(layer, kind, messages, n).await,
        }
    }

    async fn typed(
        &self,
        layer: &ChatHistoryLayer<OpenAi>,
        client: &Client<OpenAIConfig>,
        kind: CallKind,
        messages: &[Message],
        n: u8,
    ) -> Result<Received, BoxError> {
        let asked = TypedRequest { n: Some(n), ..request(messages.to_vec()) };
        let (call, report) = InConversation::new(self.id.clone(), asked).with_report();
        let (text, finished, error_at) = match kind {
            CallKind::Unary => {
                let response = layer.layer(ChatService::new(client.clone())).oneshot(call).await?;
                (response_text(&response).to_owned(), response.choices.len(), None)
            }
            CallKind::Stream => {
                let stream = layer.layer(ChatStreamService::new(client.clone())).oneshot(call).await?;
                let items: Vec<_> = stream.collect().await;
                let error_at = items.iter().position(Result::is_err);
                let chunks: Vec<_> = items.into_iter().flatten().collect();
                let choices = chunks.iter().flat_map(|chunk| &chunk.choices);
                (reply_text(&chunks), choices.filter(|choice| choice.finish_reason.is_some()).count(), error_at)
            }
        };
        Ok(Received { text, finished, error_at, report: report.await.unwrap() })
    }

    async fn http(
        &self,
        layer: &ChatHistoryLayer<HttpHistory<FromExtensions>>,
        kind: CallKind,
        messages: &[Message],
        n: u8,
    ) -> Result<Received, BoxError> {
        let (options, report) = CallOptions::new().with_report();
        let messages: Vec<&str> = messages.iter().map(Message::json).collect();
        let fields = json!({"model": "mock", "n": n, "stream": kind == CallKind::Stream}).to_string();
        let body = fields.replacen('{', &format!("{{\"messages\":[{}],", messages.join(",")), 1);
        let request = Request::post(format!("{}/chat/completions", self.server.base_url()));
        let request = request.extension(self.id.clone()).extension(options).body(body).unwrap();
        let client = ServiceBuilder::new().layer(RetryLayer::new(WhileBusy)).service(HttpClient::new());
        let mut body = layer.layer(client).oneshot(request).await?.into_body();
        let (mut bytes, mut is_broken) = (Vec::new(), false);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend(frame.into_data().unwrap()),
                Err(_) => is_broken = true,
            }
        }
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        let chunks: Vec<Value> = match kind {
            CallKind::Unary => vec![json(text)],
            CallKind::Stream => {
                let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
                data.filter(|data| *data != "[DONE]").map(json).collect()
            }
        };
        let error = chunks.iter().position(|chunk| chunk["error"].is_object());
        let choices = || chunks.iter().filter_map(|chunk| chunk["choices"].as_array()).flatten();
        let first = choices().filter(|choice| choice["index"] == 0);
        let said = first.filter_map(|choice| {
            let said = if kind == CallKind::Unary { &choice["message"] } else { &choice["delta"] };
            said["content"].as_str()
        });
        Ok(Received {
            text: said.collect(),
            finished: choices().filter(|choice| choice["finish_reason"].is_string()).count(),
            error_at: error.or_else(|| is_broken.then_some(chunks.len())),
            report: report.await.unwrap(),
        })
    }

    /// Returns the last prompt that the server received, in the short form.
    pub(super) fn received(&self) -> Vec<String> {
        self.server.prompts().last().unwrap().iter().map(short).collect()
    }
}

/// Repeats a call whose answer is that the server is busy, as async-openai does.
#[derive(Clone)]
struct WhileBusy;

impl Policy<Request<HistoryBody>, http::Response<Body>, Error> for WhileBusy {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<HistoryBody>,
        result: &mut Result<http::Response<Body>, Error>,
    ) -> Option<Self::Future> {
        let is_busy = result.as_ref().is_ok_and(|response| response.status() == StatusCode::TOO_MANY_REQUESTS);
        is_busy.then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &Request<HistoryBody>) -> Option<Request<HistoryBody>> {
        let mut clone = Request::new(request.body().try_clone()?);
        (*clone.method_mut(), *clone.uri_mut()) = (request.method().clone(), request.uri().clone());
        *clone.headers_mut() = request.headers().clone();
        Some(clone)
    }
}
