//! Calls that are repeated without encrypted items, because the provider cannot read them any more.

mod bodies;
mod calls;
mod cuts;
mod messages;
mod provider;
mod ready;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use serde_json::Value;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    ChatHistoryLayer, Engine, HistoryOptions, HistoryStore, HistoryStoreExt as _, TurnReport,
    engine::InputMode,
    http::{CONVERSATION_ID, DONT_STORE, HttpHistory},
    store::{Append, Cut, Cuts, Exchange, Expect, Load, Loaded, Recorded, Seq},
};
use tower_chat_history_test::responses::Say;

use self::provider::Provider;
use super::support::{id, text};

/// A conversation with a provider whose key can be replaced.
struct Talk<S> {
    store: Arc<S>,
    provider: Provider,
    engine: Engine,
    layer: ChatHistoryLayer<HttpHistory>,
    reports: Arc<Mutex<Vec<TurnReport>>>,
}

impl<S: HistoryStore> Talk<S> {
    fn new(store: Arc<S>) -> Self {
        Self::with(store, Provider::new(), HistoryOptions::new())
    }

    fn with(store: Arc<S>, provider: Provider, options: HistoryOptions) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let options = options.on_turn({
            let reports = Arc::clone(&reports);
            move |report| reports.lock().unwrap().push(report.clone())
        });
        let engine = Engine::with_options(Arc::clone(&store), options);
        let adapter = HttpHistory::new().input_mode(InputMode::New);
        let layer = ChatHistoryLayer::from_engine(engine.clone(), adapter);
        Self { store, provider, engine, layer, reports }
    }

    /// Asks a question, for this response. Returns the status and the text of the response.
    async fn ask(&self, script: Vec<Say>, streams: bool) -> (u16, String) {
        self.send(r#"{"role":"user","content":"and?"}"#, script, streams).await
    }

    /// Asks a question without storing it.
    async fn dont_store(&self, script: Vec<Say>) -> (u16, String) {
        let request = |mut request: Request<Full<Bytes>>| {
            request.headers_mut().insert(DONT_STORE, HeaderValue::from_static("true"));
            request
        };
        self.send_as(r#"{"role":"user","content":"and?"}"#, script, false, request).await
    }

    /// Sends this input, for this response.
    async fn send(&self, input: &str, script: Vec<Say>, streams: bool) -> (u16, String) {
        self.send_as(input, script, streams, |request| request).await
    }

    async fn send_as(
        &self,
        input: &str,
        script: Vec<Say>,
        streams: bool,
        changed: impl FnOnce(Request<Full<Bytes>>) -> Request<Full<Bytes>>,
    ) -> (u16, String) {
        self.provider.prepare(script);
        let provider = self.provider.clone();
        let service = service_fn(move |request| provider.clone().respond(request));
        let body = format!(r#"{{"model":"gpt-5.5","store":false,"input":[{input}],"stream":{streams}}}"#);
        let response = self.layer.layer(service).oneshot(changed(ask(body))).await.unwrap();
        (response.status().as_u16(), text(response).await)
    }

    /// Asks a question, and checks that the call succeeds with this number of requests. Returns the last request.
    async fn ok(&self, requests: usize) -> String {
        let before = self.provider.requests().len();
        let (status, body) = self.ask(vec![Say::reasoning(), Say::text("so")], false).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(self.provider.requests().len(), before + requests);
        self.sent()
    }

    /// Returns the last request.
    fn sent(&self) -> String {
        self.provider.requests().pop().unwrap()
    }

    fn report(&self) -> TurnReport {
        self.reports.lock().unwrap().last().unwrap().clone()
    }

    async fn log(&self) -> Vec<Recorded> {
        self.store.conversation(&id()).exchanges().await.unwrap()
    }

    async fn append(&self, exchange: Exchange) {
        let append = Append::new(Expect::AnyOrCreate, exchange);
        self.store.append(&id(), append).await.unwrap();
    }

    /// Returns the stored cut.
    async fn cut(&self) -> Option<Cut> {
        match self.store.load(&id(), Load::new()).await.unwrap() {
            Loaded::Window(window) => window.compaction.map(|compaction| Cuts::read(&compaction).unwrap().cut),
            _ => None,
        }
    }

    /// Returns the position before which the stored cut leaves out encrypted items.
    async fn encrypted_from(&self) -> Seq {
        self.cut().await.map_or(Seq::FIRST, |cut| cut.encrypted_from)
    }
}

fn ask(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post("https://api.openai.com/v1/responses").header(CONVERSATION_ID, id().as_str());
    request.body(Full::new(body.into())).unwrap()
}

/// Returns the items of a request.
fn items(body: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(body).unwrap()["input"].as_array().unwrap().clone()
}

/// Returns `true` if a request has an encrypted item, or an item with an id.
fn is_bound(body: &str) -> bool {
    items(body).iter().any(|item| item["encrypted_content"].is_string() || item["id"].is_string())
}
