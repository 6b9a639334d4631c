//! Conversations over Anthropic's Messages API, with a provider that refuses what the API refuses.

mod cases;
mod hostile;
mod marking;
mod mutant;
mod refused;
pub(crate) mod streamed;
mod streams;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory, MessagesWire, Routes},
    report::TurnOutcome,
    store::Recorded,
};
use tower_chat_history_test::messages::{MessagesProvider, Say};

use self::streamed::events;
use super::{mock_messages::MockMessages, support::text};

/// A layer with a store, around a provider of the API.
struct Chat {
    store: MemoryStore,
    layer: ChatHistoryLayer<HttpHistory>,
    mock: MockMessages,
    outcomes: Arc<Mutex<Vec<TurnOutcome>>>,
    id: ConversationId,
}

/// The response to a call.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: String,
}

impl Chat {
    fn new() -> Self {
        Self::of(HistoryOptions::new())
    }

    fn of(options: HistoryOptions) -> Self {
        Self::by(HttpHistory::new(), options)
    }

    /// Creates a layer whose wire places a mark for the cache at the end of the history.
    fn marking(options: HistoryOptions) -> Self {
        static MESSAGES: MessagesWire = MessagesWire::new().mark_history();
        let routes = Routes::none().route(|_, uri| uri.path() == "/v1/messages", &MESSAGES);
        Self::by(HttpHistory::new().routes(routes), options)
    }

    fn by(adapter: HttpHistory, options: HistoryOptions) -> Self {
        let (store, outcomes) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
        let options = options.on_turn({
            let outcomes = Arc::clone(&outcomes);
            move |report| outcomes.lock().unwrap().push(report.outcome.clone())
        });
        let engine = Engine::with_options(store.clone(), options);
        let layer = ChatHistoryLayer::from_engine(engine, adapter);
        let mock = MockMessages::new(MessagesProvider::new("acme").with_block_type("hologram"));
        Self { store, layer, mock, outcomes, id: ConversationId::new(["acme"]).unwrap() }
    }

    /// Calls the layer. A stream has only this share of its bytes.
    async fn call(&self, body: String, share: f64) -> Result<Answer, BoxError> {
        let request = Request::post("https://api.anthropic.com/v1/messages").header(CONVERSATION_ID, self.id.as_str());
        let request = request.body(Full::<Bytes>::from(body))?;
        let mock = self.mock.clone();
        let provider = service_fn(move |request: Request<HistoryBody>| respond(mock.clone(), request, share));
        let response = self.layer.layer(provider).oneshot(request).await?;
        Ok(Answer { status: response.status().as_u16(), body: text(response).await })
    }

    /// Makes a call with these messages and this reply, which succeeds. Returns the reply.
    async fn say(&self, messages: &Value, reply: Vec<Say>) -> Value {
        self.mock.push(reply);
        let body = json!({"model": "claude", "max_tokens": 99, "messages": messages}).to_string();
        let answer = self.call(body, 1.0).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    async fn exchanges(&self) -> Vec<Recorded> {
        self.store.conversation(&self.id).exchanges().await.unwrap()
    }

    async fn log(&self) -> Vec<Message> {
        self.store.conversation(&self.id).messages().await.unwrap()
    }

    /// Returns the messages of the newest request.
    fn sent(&self) -> Value {
        let body: Value = serde_json::from_str(self.mock.requests().last().unwrap()).unwrap();
        body["messages"].clone()
    }

    /// Returns the outcome of the last turn.
    fn outcome(&self) -> TurnOutcome {
        self.outcomes.lock().unwrap().last().unwrap().clone()
    }
}

/// Answers a request as the provider does.
async fn respond(
    mock: MockMessages,
    request: Request<HistoryBody>,
    share: f64,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let body = String::from_utf8(request.into_body().collect().await?.to_bytes().to_vec())?;
    let streams = serde_json::from_str::<Value>(&body).is_ok_and(|body| body["stream"] == true);
    let (status, kind, body) = match mock.answer(body) {
        Ok(reply) if streams => {
            let mut text = events(&reply.body());
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let kept = (text.len() as f64 * share) as usize;
            text.truncate((0..=kept).rfind(|at| text.is_char_boundary(*at)).unwrap());
            (200, "text/event-stream", text)
        }
        Ok(reply) => (200, "application/json", reply.body()),
        Err(refusal) => (refusal.status(), "application/json", refusal.body()),
    };
    Ok(Response::builder().status(status).header("content-type", kind).body(Full::from(body))?)
}
