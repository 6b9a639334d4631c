//! Responses that an adapter cannot read: the caller gets them, and the report describes their format.

use futures_util::{StreamExt as _, stream::BoxStream};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryStoreExt as _, InConversation, MemoryStore, Message,
    Reply,
    adapt::{Custom, Flow, FoldReply, Json},
    report::{NotStored, ResponseShape, TurnOutcome},
};

fn id() -> ConversationId {
    ConversationId::new(["tests"]).unwrap()
}

fn anthropic() -> Value {
    json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a secret"}]})
}

fn ask() -> Value {
    json!({"messages": [{"role": "user", "content": "u"}]})
}

async fn answered(engine: &Engine, answer: Value) -> TurnOutcome {
    let model = service_fn(move |_: Value| {
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(answer) }
    });
    let chat = ChatHistoryLayer::from_engine(engine.clone(), Json::new()).layer(model);
    let (call, report) = InConversation::new(id(), ask()).with_report();
    chat.oneshot(call).await.unwrap();
    report.await.unwrap().outcome.clone()
}

async fn streamed(engine: &Engine, items: Vec<Value>) -> TurnOutcome {
    let model = service_fn(move |_: Value| {
        let items = items.clone();
        let items: BoxStream<'static, Result<Value, BoxError>> =
            futures_util::stream::iter(items.into_iter().map(Ok)).boxed();
        async move { Ok::<_, BoxError>(items) }
    });
    let chat = ChatHistoryLayer::from_engine(engine.clone(), Json::new()).layer(model);
    let (call, report) = InConversation::new(id(), ask()).with_report();
    let count = chat.oneshot(call).await.unwrap().count().await;
    assert!(count > 0);
    report.await.unwrap().outcome.clone()
}

fn shape(outcome: &TurnOutcome) -> Option<ResponseShape> {
    match outcome {
        TurnOutcome::NotStored(NotStored::UnreadableReply(shape)) => Some(*shape),
        _ => None,
    }
}

#[tokio::test]
async fn the_report_names_the_format_of_an_unreadable_value() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    let outcome = answered(&engine, anthropic()).await;
    assert_eq!(shape(&outcome), Some(ResponseShape::AnthropicMessage));
    assert_eq!(outcome.kind(), "unreadable_reply");
    let candidates = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}]});
    assert_eq!(shape(&answered(&engine, candidates).await), Some(ResponseShape::GeminiResponse));
    let empty = answered(&engine, json!({"choices": []})).await;
    assert!(matches!(empty, TurnOutcome::NotStored(NotStored::NoReply)), "{empty:?}");
    assert!(store.conversation(&id()).messages().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_report_names_the_format_of_an_unreadable_stream() {
    let engine = Engine::new(MemoryStore::new());
    let events = vec![
        json!({"type": "message_start", "message": anthropic()}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}),
        json!({"type": "message_stop"}),
    ];
    assert_eq!(shape(&streamed(&engine, events).await), Some(ResponseShape::AnthropicMessage));
    let cut = streamed(&engine, vec![json!({"choices": [{"delta": {"content": "a"}}]})]).await;
    assert!(matches!(cut, TurnOutcome::NotStored(NotStored::Interrupted)), "{cut:?}");
}

#[derive(Clone)]
struct Answer(Message);

/// A fold of a program's own types, for one item.
struct Whole(Option<Message>);

impl FoldReply<Message> for Whole {
    fn push(&mut self, item: &Message) -> Flow {
        self.0 = Some(item.clone());
        Flow::Pass
    }

    fn is_complete(&self) -> bool {
        self.0.is_some()
    }

    fn is_whole(&self) -> bool {
        self.is_complete()
    }

    fn reply(&self) -> Reply {
        self.0.clone().into()
    }

    fn partial(&self) -> Option<Reply> {
        None
    }
}

#[tokio::test]
async fn an_unreadable_custom_reply_is_not_stored_and_its_format_is_reported() {
    let blocks = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]});
    let message = Message::try_from(blocks).unwrap();
    let new_call = || InConversation::new(id(), "u").with_report();
    let store = MemoryStore::new();

    let answer = Answer(message.clone());
    let model = service_fn(move |_: &'static str| std::future::ready(Ok::<_, BoxError>(answer.clone())));
    let adapter = || Custom::new(|text: &&'static str| Message::user(text)).fill(|text, _| text);
    let unary = adapter().reply(|answer: &Answer| answer.0.clone());
    let (call, report) = new_call();
    ChatHistoryLayer::new(store.clone(), unary).layer(model).oneshot(call).await.unwrap();
    assert_eq!(shape(&report.await.unwrap().outcome), Some(ResponseShape::AnthropicMessage));

    let model = service_fn(move |_: &'static str| {
        let items: BoxStream<'static, Result<Message, BoxError>> =
            futures_util::stream::iter([Ok(message.clone())]).boxed();
        std::future::ready(Ok::<_, BoxError>(items))
    });
    let (call, report) = new_call();
    let layer = ChatHistoryLayer::new(store.clone(), adapter().fold(|_| Whole(None)));
    layer.layer(model).oneshot(call).await.unwrap().count().await;
    assert_eq!(shape(&report.await.unwrap().outcome), Some(ResponseShape::AnthropicMessage));
    assert!(store.conversation(&id()).messages().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reply_with_another_role_is_stored_with_the_role_assistant() {
    let store = MemoryStore::new();
    let model = service_fn(|_: &'static str| std::future::ready(Ok::<_, BoxError>(Message::tool("x", "Hi"))));
    let adapter = Custom::new(|text: &&'static str| Message::user(text)).fill(|text, _| text).reply(Message::clone);
    let service = ChatHistoryLayer::new(store.clone(), adapter).layer(model);
    service.oneshot(InConversation::new(id(), "u")).await.unwrap();
    let log = store.conversation(&id()).messages().await.unwrap();
    assert_eq!(log[1].json(), r#"{"role":"assistant","tool_call_id":"x","content":"Hi"}"#);
}
