//! A conversation through the layer with a server that refuses what a provider refuses.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, HistoryOptions, HistoryStoreExt as _, MemoryStore,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory, Routes},
};
use tower_chat_history_test::{ChatProvider, MockServer, Replies, Reply};

use super::super::support::{id, text};

/// An API, and the provider that offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat(ChatProvider),
    Messages,
    Responses,
}

impl Api {
    fn result(self, id: &str) -> Value {
        match self {
            Self::Chat(_) => json!({"role": "tool", "tool_call_id": id, "content": "r"}),
            Self::Messages => json!({"type": "tool_result", "tool_use_id": id, "content": "r"}),
            Self::Responses => json!({"type": "function_call_output", "call_id": id, "output": "r"}),
        }
    }

    /// Returns the results of these calls as messages.
    fn results(self, ids: &[&str]) -> Vec<Value> {
        let results: Vec<Value> = ids.iter().map(|id| self.result(id)).collect();
        if self == Self::Messages { vec![json!({"role": "user", "content": results})] } else { results }
    }

    fn body(self, input: &[Value], streams: bool) -> Value {
        match self {
            Self::Chat(_) => json!({"model": "m", "messages": input, "stream": streams}),
            Self::Messages => json!({"model": "m", "max_tokens": 99, "messages": input, "stream": streams}),
            Self::Responses => json!({"model": "m", "store": false, "input": input, "stream": streams}),
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Chat(_) => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }
}

/// A layer, and the server that it calls.
pub(super) struct Chat {
    pub(super) server: MockServer,
    store: MemoryStore,
    layer: ChatHistoryLayer<HttpHistory>,
    api: Api,
}

impl Chat {
    pub(super) async fn start(api: Api, routes: Routes) -> Self {
        Self::start_with(api, routes, HistoryOptions::new()).await
    }

    pub(super) async fn start_with(api: Api, routes: Routes, options: HistoryOptions) -> Self {
        // Two turns: one of two rounds and an answer, and one of a round with parallel calls and an answer.
        let script = Replies::script([
            Reply::calls([("x", "f", "{}")]).thinking("first"),
            Reply::calls([("y", "f", "{}")]).thinking("then"),
            Reply::text("a").thinking("done"),
            Reply::calls([("p", "f", "{}"), ("q", "f", "{\"a\":1}")]).redacted_thinking(),
            Reply::text("b"),
        ]);
        let provider = if let Api::Chat(provider) = api { provider } else { ChatProvider::OpenAi };
        let server = MockServer::start(script.provider(provider)).await.unwrap();
        let store = MemoryStore::new();
        let layer = ChatHistoryLayer::with_options(store.clone(), HttpHistory::new().routes(routes), options);
        Self { server, store, layer, api }
    }

    /// Returns the input of each call of the script.
    pub(super) fn inputs(&self) -> [Vec<Value>; 5] {
        let user = |text: &str| vec![json!({"role": "user", "content": text})];
        let results = |ids: &[&str]| self.api.results(ids);
        [user("u"), results(&["x"]), results(&["y"]), user("v"), results(&["p", "q"])]
    }

    /// Calls the provider's own path with new messages, and expects that nothing is refused.
    pub(super) async fn say(&self, input: &[Value], streams: bool) {
        self.call(self.api.path(), &self.api.body(input, streams)).await;
    }

    /// Calls this path. The inner service plays the gateway, which knows the model and the version from the address.
    pub(super) async fn call(&self, path: &str, body: &Value) {
        let request = Request::post(format!("http://{}{path}", self.server.address()))
            .header(CONVERSATION_ID, id().as_str())
            .header("content-type", "application/json");
        let request = request.body(Full::<Bytes>::from(body.to_string())).unwrap();
        let own_path = self.api.path();
        let client = service_fn(move |request: Request<HistoryBody>| send(request, own_path));
        let response = self.layer.layer(client).oneshot(request).await.unwrap();
        let status = response.status();
        let answer = text(response).await;
        assert!(status.is_success(), "{:?}: {answer}\n{:?}", self.api, self.server.requests().last().unwrap().body());
    }

    /// Makes all calls of the script.
    pub(super) async fn talk(&self, streams: bool) {
        for input in self.inputs() {
            self.say(&input, streams).await;
        }
    }

    /// Checks that the last request had the whole log before the last reply, as it is stored.
    pub(super) async fn check_replayed(&self) {
        let log = self.store.conversation(&id()).messages().await.unwrap();
        let requests = self.server.requests();
        assert_eq!(requests.len(), 5);
        let sent = requests[4].messages();
        let sent: Vec<&str> = sent.iter().map(|message| message.json()).collect();
        let log: Vec<&str> = log.iter().map(|message| message.json()).collect();
        assert_eq!(sent, log[..log.len() - 1], "{:?}", self.api);
    }

    /// Returns the body of a request, after a change of its messages.
    pub(super) fn changed(&self, request: usize, change: impl Fn(&mut Vec<Value>)) -> String {
        let mut body = self.server.requests()[request].json();
        let field = if self.api == Api::Responses { "input" } else { "messages" };
        change(body[field].as_array_mut().unwrap());
        body.to_string()
    }
}

async fn send(request: Request<HistoryBody>, path: &str) -> Result<Response<reqwest::Body>, BoxError> {
    let (mut head, body) = request.into_parts();
    let mut body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    if !body.contains(r#""model":"#) {
        body.insert_str(1, r#""model":"m","#);
    }
    head.uri = format!("http://{}{path}", head.uri.authority().unwrap()).parse()?;
    head.headers.remove("content-length");
    head.headers.insert("anthropic-version", "2023-06-01".parse()?);
    let request = reqwest::Request::try_from(Request::from_parts(head, body))?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    Ok(Response::from(client.execute(request).await?))
}
