//! A program's own types with their adapter, and shared helpers of the tests.

#![allow(unreachable_pub)] // Only this binary uses it.

use std::sync::{Arc, Mutex};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryOptions, HistoryStore, HistoryStoreExt,
    InConversation, MemoryStore, Message, Reply, TurnInput, TurnReport,
    adapt::{
        AdaptRequest, CallFacts, CallScope, Draft, Flow, FoldReply, ModelRequest, OpenedRequest, Prompt, ReadResponse,
        Reading,
    },
};
use tower_chat_history_test::FaultStore;
use tower_test::mock::{Handle, Mock, Spawn};

/// The adapter of a model that takes messages, and returns a message or a stream of pieces.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

#[derive(Debug)]
pub struct PlainDraft(Vec<Message>);

pub type Request = Vec<Message>;
pub type Pieces = BoxStream<'static, Result<Piece, &'static str>>;

/// A piece of a streamed reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piece {
    Text(&'static str),
    /// The end of the choice.
    Finish,
    /// Follows the last choice.
    Model(&'static str),
    /// The last item. Callers may drop the stream after it.
    Done,
}

impl AdaptRequest<InConversation<Request>> for Plain {
    type Request = Request;
    type Draft = PlainDraft;

    async fn open(&self, call: InConversation<Request>) -> Result<OpenedRequest<PlainDraft, Request>, BoxError> {
        let (scope, messages) = call.into_parts();
        let CallScope::Conversation(id, options) = scope else { return Ok(OpenedRequest::PassThrough(messages)) };
        let input = TurnInput::new(id, messages.clone()).options(options);
        Ok(OpenedRequest::Turn(input, PlainDraft(messages)))
    }
}

impl Draft for PlainDraft {
    type Request = Request;

    fn complete(self, prompt: Prompt<'_>) -> Result<ModelRequest<Request>, BoxError> {
        Ok(ModelRequest::new([prompt.window, &self.0].concat(), 0))
    }
}

impl ReadResponse<Message> for Plain {
    type Response = Message;

    fn pass(&self, response: Message) -> Message {
        response
    }

    async fn read(&self, response: Message, _: CallFacts) -> Result<Reading<Message>, BoxError> {
        Ok(Reading::whole(response.clone(), Reply::new(response)))
    }
}

impl ReadResponse<Pieces> for Plain {
    type Response = Pieces;

    fn pass(&self, response: Pieces) -> Pieces {
        response
    }

    async fn read(&self, response: Pieces, _: CallFacts) -> Result<Reading<Pieces>, BoxError> {
        Ok(Reading::stream(response, PieceFold::default(), |_| "stalled", |recorded| recorded.boxed()))
    }
}

#[derive(Default)]
pub struct PieceFold {
    text: String,
    model: Option<String>,
    finished: bool,
}

impl FoldReply<Piece> for PieceFold {
    fn push(&mut self, item: &Piece) -> Flow {
        match item {
            Piece::Text(text) => self.text.push_str(text),
            Piece::Finish => self.finished = true,
            Piece::Model(model) => self.model = Some((*model).into()),
            Piece::Done => return Flow::Hold,
        }
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.finished
    }

    fn is_whole(&self) -> bool {
        self.finished
    }

    fn reply(&self) -> Reply {
        let mut reply = Reply::new(Message::assistant(&self.text));
        reply.model.clone_from(&self.model);
        reply
    }

    fn partial(&self) -> Option<Reply> {
        let mut reply = self.reply();
        reply.incomplete = true;
        (!self.text.is_empty()).then_some(reply)
    }
}

pub type Unary = Spawn<ChatHistory<Mock<Request, Message>, Plain>>;
pub type Streaming = Spawn<ChatHistory<Mock<Request, Pieces>, Plain>>;

/// Returns the layer over a mock model, whose readiness the test controls.
pub fn unary(store: impl HistoryStore, options: HistoryOptions) -> (Unary, Handle<Request, Message>) {
    tower_test::mock::spawn_layer(ChatHistoryLayer::with_options(store, Plain, options))
}

/// Returns the same layer over a streaming model.
pub fn streaming(store: impl HistoryStore, options: HistoryOptions) -> (Streaming, Handle<Request, Pieces>) {
    tower_test::mock::spawn_layer(ChatHistoryLayer::with_options(store, Plain, options))
}

pub fn id() -> ConversationId {
    ConversationId::new(["tests", "one"]).unwrap()
}

pub fn fault_store() -> FaultStore<MemoryStore> {
    FaultStore::new(MemoryStore::new())
}

pub fn ask(text: &str) -> InConversation<Request> {
    InConversation::new(id(), vec![Message::user(text)])
}

/// Returns the texts of the log.
pub async fn log(store: &dyn HistoryStore) -> Vec<String> {
    let messages = store.conversation(&id()).messages().await.unwrap();
    messages.iter().map(|message| message.text().into_owned()).collect()
}

pub fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.text().into_owned()).collect()
}

/// Returns a reply that makes a call with each of these ids.
pub fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let calls: Vec<Value> = ids.iter().map(call).collect();
    Message::try_from(json!({"role": "assistant", "content": null, "tool_calls": calls})).unwrap()
}

/// Collects the hook's reports.
#[derive(Clone, Default)]
pub struct Reports(Arc<Mutex<Vec<TurnReport>>>);

impl Reports {
    pub fn hook(&self) -> impl Fn(&TurnReport) + Send + Sync + use<> {
        let reports = Arc::clone(&self.0);
        move |report| reports.lock().unwrap().push(report.clone())
    }

    pub fn all(&self) -> Vec<TurnReport> {
        self.0.lock().unwrap().clone()
    }
}
