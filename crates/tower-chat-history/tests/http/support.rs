//! A layer with a store, whose inner service the test plays.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use tower::{Layer as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStore, HistoryStoreExt as _,
    MemoryStore,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
    report::TurnOutcome,
};

pub(crate) const PATH: &str = "/v1/chat/completions";
pub(crate) const ASK: &str =
    r#"{ "messages":[ {"content":"u0","role":"user","cache_control":{"ttl":1.50}} ], "model":"m" }"#;
pub(crate) const WHOLE: &str =
    r#"{"choices":[{"index":0,"message":{ "role":"assistant","content":"a0", "x":"\u00e4" },"finish_reason":"stop"}]}"#;
pub(crate) const REPLY: &str = r#"{ "role":"assistant","content":"a0", "x":"\u00e4" }"#;
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

pub(crate) fn id() -> ConversationId {
    ConversationId::new(["acme", "user-42"]).unwrap()
}

/// Returns a request with history.
pub(crate) fn ask(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    with_body(Full::new(body.into()))
}

pub(crate) fn with_body<B>(body: B) -> Request<B> {
    Request::post(PATH).header(CONVERSATION_ID, id().as_str()).header("x-other", "kept").body(body).unwrap()
}

pub(crate) fn answer(kind: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    answer_with(kind, Full::new(body.into()))
}

pub(crate) fn answer_with<C>(kind: &str, body: C) -> Response<C> {
    Response::builder().status(201).header("content-type", kind).header("x-request-id", "r1").body(body).unwrap()
}

/// Returns a body of these frames.
pub(crate) fn frames(frames: Vec<Frame<Bytes>>) -> UnsyncBoxBody<Bytes, BoxError> {
    StreamBody::new(futures_util::stream::iter(frames.into_iter().map(Ok))).boxed_unsync()
}

/// Returns the events of a stream that says these pieces.
pub(crate) fn events(pieces: &[&str]) -> String {
    let mut text = String::from(": hello\n\n");
    for piece in pieces {
        let delta = serde_json::json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
        text.push_str(&format!("data: {delta}\n\n"));
    }
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    text + &format!("data: {stop}\n\ndata: [DONE]\n\n")
}

/// A request as the inner service received it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) head: Parts,
    pub(crate) body: String,
}

impl Sent {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A layer with its store.
pub(crate) struct History<X = tower_chat_history::http::FromHeaders> {
    pub(crate) store: MemoryStore,
    layer: ChatHistoryLayer<HttpHistory<X>>,
    outcomes: Arc<Mutex<Vec<TurnOutcome>>>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self::of(HttpHistory::new(), HistoryOptions::new())
    }
}

impl<X: Clone + Sync> History<X> {
    pub(crate) fn of(adapter: HttpHistory<X>, options: HistoryOptions) -> Self {
        let store = MemoryStore::new();
        Self::over(store.clone(), store, adapter, options)
    }

    /// Creates a layer over a store that wraps this one.
    pub(crate) fn over(
        store: MemoryStore,
        wrapper: impl HistoryStore,
        adapter: HttpHistory<X>,
        options: HistoryOptions,
    ) -> Self {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let options = options.on_turn({
            let outcomes = Arc::clone(&outcomes);
            move |report| outcomes.lock().unwrap().push(report.outcome.clone())
        });
        let layer = ChatHistoryLayer::from_engine(Engine::with_options(wrapper, options), adapter);
        Self { store, layer, outcomes }
    }

    pub(crate) fn layer(&self) -> &ChatHistoryLayer<HttpHistory<X>> {
        &self.layer
    }

    /// Returns the outcome of the last turn.
    pub(crate) fn outcome(&self) -> TurnOutcome {
        self.outcomes.lock().unwrap().last().unwrap().clone()
    }

    /// Returns the JSON of the stored messages.
    pub(crate) async fn log(&self) -> Vec<String> {
        let messages = self.store.conversation(&id()).messages().await.unwrap();
        messages.iter().map(|message| message.json().to_owned()).collect()
    }
}

impl History {
    /// Calls the layer, and answers the request of the inner service, if one comes.
    pub(crate) async fn call<B, C>(
        &self,
        request: Request<B>,
        answer: Response<C>,
    ) -> (Option<Sent>, Result<Response<HistoryBody>, BoxError>)
    where
        B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
        C: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    {
        let (mock, mut handle) = tower_test::mock::pair::<Request<HistoryBody>, Response<C>>();
        handle.allow(1);
        let calling = self.layer.layer(mock).oneshot(request);
        let answering = async {
            let (request, respond) = handle.next_request().await?;
            let (head, body) = request.into_parts();
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            respond.send_response(answer);
            Some(Sent { head, body })
        };
        let (called, sent) = tokio::join!(calling, answering);
        (sent, called)
    }

    /// Makes a call that succeeds. Returns the request that was sent, and the text of the response.
    pub(crate) async fn ok<C>(&self, body: &str, answer: Response<C>) -> (Sent, String)
    where
        C: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    {
        let (sent, response) = self.call(ask(body.to_owned()), answer).await;
        (sent.unwrap(), text(response.unwrap()).await)
    }

    /// Makes a call that fails before the store and the model are called.
    pub(crate) async fn refused<B>(&self, request: Request<B>) -> BoxError
    where
        B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    {
        let (sent, response) = self.call(request, answer(JSON, WHOLE)).await;
        assert!(sent.is_none());
        assert!(self.outcomes.lock().unwrap().is_empty());
        response.unwrap_err()
    }
}

pub(crate) async fn text<B: Body<Error: std::fmt::Debug>>(response: Response<B>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Returns the pieces of a stream that is cut at every 64th byte, once for each byte at which the first cut can be. So
/// each byte is a cut in one of the lists. A single cut per call would need a call for each byte.
pub(crate) fn cuts(stream: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    const DISTANCE: usize = 64;
    (0..DISTANCE.min(stream.len() + 1)).map(|first| {
        let (front, rest) = stream.split_at(first);
        std::iter::once(front).chain(rest.chunks(DISTANCE)).collect()
    })
}
