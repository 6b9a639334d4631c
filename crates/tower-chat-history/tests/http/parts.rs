//! Adapters of other crates that are made of the parts of this one.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, Engine, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message,
    TurnInput,
    adapt::{AdaptRequest, CallFacts, Draft, ModelRequest, OpenedRequest, Prompt, ReadResponse, Reading},
    dialect::AnthropicMessages,
    engine::InputMode,
    http::{HistoryBody, HttpLimits, MessagesWire, Routes, Splice, parts},
    report::{NotStored, ResponseShape, TurnOutcome},
};

use super::support::{JSON, answer, id};

const ASK: &str = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"u"}]}"#;
const WHOLE: &str =
    r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"}"#;

/// An adapter whose requests are bodies for an address of its own.
#[derive(Clone, Copy, Debug)]
enum Own {
    /// It reads the body by `open_body`.
    ByParts,
    /// It makes an input of its own, without a value by which the response is read.
    ByHand,
}

#[derive(Clone)]
struct OwnDraft(Bytes, Option<Splice>);

impl AdaptRequest<Bytes> for Own {
    type Request = Bytes;
    type Draft = OwnDraft;

    async fn open(&self, body: Bytes) -> Result<OpenedRequest<OwnDraft, Bytes>, BoxError> {
        static MESSAGES: MessagesWire = MessagesWire::new();
        let routes = Routes::none().route(|_, uri| uri.path() == "/own", &MESSAGES);
        let request = Request::post("/own").body(()).unwrap();
        let wire = routes.find(request.method(), request.uri()).unwrap();
        if matches!(self, Self::ByHand) {
            let input = Message::in_dialect(&AnthropicMessages, r#"{"role":"user","content":"u"}"#)?;
            return Ok(OpenedRequest::Turn(TurnInput::new(id(), [input]), OwnDraft(body, None)));
        }
        let (turn, splice) = parts::open_body(wire, id(), CallOptions::new(), InputMode::New, body.clone()).await?;
        Ok(OpenedRequest::Turn(turn, OwnDraft(body, Some(splice))))
    }
}

impl Draft for OwnDraft {
    type Request = Bytes;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Bytes>, BoxError> {
        let changed = self.1.and_then(|splice| splice.with(prompt));
        Ok(ModelRequest::new(changed.unwrap_or(self.0), 0))
    }
}

impl ReadResponse<Response<Full<Bytes>>> for Own {
    type Response = Response<HistoryBody>;

    fn pass(&self, response: Response<Full<Bytes>>) -> Self::Response {
        response.map(HistoryBody::new)
    }

    async fn read(
        &self,
        response: Response<Full<Bytes>>,
        asked: CallFacts,
    ) -> Result<Reading<Self::Response>, BoxError> {
        parts::read_response(HttpLimits::new(), response.map(HistoryBody::new), asked).await
    }
}

/// Makes a call. Returns the stored messages, and why nothing was stored.
async fn called(adapter: Own) -> (Vec<String>, Option<NotStored>) {
    let store = MemoryStore::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let options = HistoryOptions::new().on_turn(move |report| sender.send(report.outcome.clone()).unwrap());
    let layer = ChatHistoryLayer::from_engine(Engine::with_options(store.clone(), options), adapter);
    let provider = service_fn(|body: Bytes| async move {
        assert_eq!(body, ASK);
        Ok::<_, BoxError>(answer(JSON, WHOLE))
    });
    let response = layer.layer(provider).oneshot(Bytes::from(ASK)).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), WHOLE);
    let messages = store.conversation(&id()).messages().await.unwrap();
    let outcome = receiver.try_recv().unwrap();
    let why = if let TurnOutcome::NotStored(why) = outcome { Some(why) } else { None };
    (messages.iter().map(|message| message.json().to_owned()).collect(), why)
}

#[tokio::test]
async fn a_response_is_read_by_the_wire_of_its_request() {
    let reply = r#"{"role":"assistant","content":[{"type":"text","text":"a"}]}"#;
    assert_eq!(called(Own::ByParts).await, (vec![r#"{"role":"user","content":"u"}"#.into(), reply.into()], None));
}

#[tokio::test]
async fn a_response_to_a_call_that_was_not_read_by_a_wire_is_passed_on_and_reported() {
    let why = NotStored::UnreadableReply(ResponseShape::UnknownCall);
    assert_eq!(called(Own::ByHand).await, (Vec::new(), Some(why)));
}
