//! The layer over HTTP requests, with a plain HTTP client and a real server.

mod bytes;
mod cases;

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use reqwest::Body;
use serde_json::{Value, json};
use tests::Storage;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, Message, TurnReport, adapt::extract::FromExtensions,
};
use tower_chat_history_http::{HistoryBody, HttpHistory};
use tower_chat_history_test::{MockServer, Replies};

/// An HTTP client without an SDK, as a service.
#[derive(Clone)]
struct HttpClient(reqwest::Client);

impl HttpClient {
    fn new() -> Self {
        Self(reqwest::Client::builder().no_proxy().build().unwrap())
    }
}

impl Service<Request<HistoryBody>> for HttpClient {
    type Response = Response<Body>;
    type Error = reqwest::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, reqwest::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), reqwest::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<HistoryBody>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let request = reqwest::Request::try_from(request.map(Body::wrap))?;
            client.execute(request).await.map(Response::from)
        })
    }
}

/// The result of a call: the bytes of the response, and the error that ended it, if any.
struct Answer {
    bytes: Vec<u8>,
    error: Option<BoxError>,
    report: Arc<TurnReport>,
}

impl Answer {
    /// Returns the chunks of a stream, without `[DONE]`.
    fn chunks(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.bytes).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Returns the text of the first choice of a stream.
    fn text(&self) -> String {
        let chunks = self.chunks();
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    }
}

/// A server, and the layer around a client of it.
struct Http {
    server: MockServer,
    layer: ChatHistoryLayer<HttpHistory<FromExtensions>>,
}

impl Http {
    async fn new(storage: &Storage, replies: impl Into<Replies>) -> Self {
        let server = MockServer::start(replies).await.unwrap();
        let adapter = HttpHistory::new().extract_by(FromExtensions::new());
        Self { server, layer: ChatHistoryLayer::new(storage.store.clone(), adapter) }
    }

    /// Makes a call with these messages and other fields, through this client.
    async fn call<C>(&self, client: C, id: &ConversationId, messages: &[Message], fields: Value) -> Answer
    where
        C: Service<Request<HistoryBody>, Response = Response<Body>, Error: Into<BoxError>> + Clone + Send + 'static,
        C::Future: Send,
    {
        let (options, report) = CallOptions::new().with_report();
        let messages: Vec<&str> = messages.iter().map(Message::json).collect();
        let mut body = json!({"model": "mock"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let body = body.to_string().replacen('{', &format!("{{\"messages\":[{}],", messages.join(",")), 1);
        let request = Request::post(format!("{}/chat/completions", self.server.base_url()));
        let request = request.extension(id.clone()).extension(options).body(body).unwrap();
        let mut body = self.layer.layer(client).oneshot(request).await.unwrap().into_body();
        let (mut bytes, mut error) = (Vec::new(), None);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend(frame.into_data().unwrap()),
                Err(broken) => error = Some(broken),
            }
        }
        Answer { bytes, error, report: report.await.unwrap() }
    }

    async fn unary(&self, id: &ConversationId, text: &str) -> Value {
        let answer = self.call(HttpClient::new(), id, &[Message::user(text)], json!({})).await;
        serde_json::from_slice(&answer.bytes).unwrap()
    }

    async fn stream(&self, id: &ConversationId, text: &str) -> Answer {
        self.call(HttpClient::new(), id, &[Message::user(text)], json!({"stream": true})).await
    }
}
