//! Messages in another API's format.

use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryError, HistoryStoreExt as _, InConversation,
    MemoryStore, Message, TurnInput,
    adapt::{AdaptRequest, Custom, Json},
    engine::InputMode,
    error::InputError,
    store::{ForeignShape, ImportError},
};

fn id() -> ConversationId {
    ConversationId::new(["foreign"]).unwrap()
}

fn message(value: Value) -> Message {
    Message::try_from(value).unwrap()
}

/// Returns a question, a call in Anthropic's format, and its result.
fn anthropic() -> [Value; 3] {
    [
        json!({"role": "user", "content": "secret"}),
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "secret"}]}),
    ]
}

fn refused_with(error: &BoxError) -> InputError {
    let text = format!("{error} {error:?}");
    assert!(!text.contains("secret"), "{text}");
    match error.downcast_ref() {
        Some(HistoryError::Input(error)) => error.clone(),
        _ => panic!("{text}"),
    }
}

const fn foreign(position: usize, name: &'static str) -> InputError {
    InputError::Foreign { position, shape: ForeignShape::AnthropicBlock(name) }
}

/// Sends a call through a layer whose model must not be called, and returns the error.
async fn refused<A, C>(store: &MemoryStore, adapter: A, call: C) -> InputError
where
    A: AdaptRequest<C, Request: Send + 'static, Draft: Send>
        + tower_chat_history::adapt::ReadResponse<Message, Response: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    C: Send + 'static,
{
    let never = service_fn(|_: A::Request| async { Err::<Message, BoxError>("the model was called".into()) });
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(never);
    let Err(error) = chat.ready().await.unwrap().call(call).await else { panic!("it was sent") };
    refused_with(&error)
}

#[tokio::test]
async fn anthropic_blocks_through_custom_are_refused_in_either_mode() {
    let store = MemoryStore::new();
    // A resent reply is only compared with the log.
    for (mode, refused_at) in
        [(InputMode::New, foreign(1, "tool_use")), (InputMode::Transcript, foreign(2, "tool_result"))]
    {
        let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).input_mode(mode);
        let adapter = adapter.reply(|answer: &Message| answer.clone());
        let call = InConversation::new(id(), anthropic().map(message).to_vec());
        assert_eq!(refused(&store, adapter, call).await, refused_at);
    }
    let adapter = Custom::new(|message: &Message| message.clone()).fill(|message, _| message);
    let adapter = adapter.reply(|answer: &Message| answer.clone());
    let call = InConversation::new(id(), message(anthropic()[2].clone()));
    assert_eq!(refused(&store, adapter, call).await, foreign(0, "tool_result"));
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), []);
}

#[tokio::test]
async fn anthropic_blocks_through_json_are_refused() {
    let never = service_fn(|_: Value| async { Err::<Value, BoxError>("the model was called".into()) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Json::new()).layer(never);
    let call = InConversation::new(id(), json!({"model": "m", "messages": anthropic()}));
    let error = chat.ready().await.unwrap().call(call).await.unwrap_err();
    assert_eq!(refused_with(&error), foreign(1, "tool_use"));
}

#[tokio::test]
async fn an_item_without_a_role_is_recognized() {
    let never = service_fn(|_: Value| async { Err::<Value, BoxError>("the model was called".into()) });
    let mut chat = ChatHistoryLayer::new(MemoryStore::new(), Json::new()).layer(never);
    let item = json!({"type": "function_call_output", "call_id": "x", "output": "secret"});
    let call = InConversation::new(id(), json!({"messages": [{"role": "user", "content": "u"}, item]}));
    let error = chat.ready().await.unwrap().call(call).await.unwrap_err();
    let text = format!("{error}: {}", error.source().unwrap());
    assert!(text.starts_with("messages[1]") && text.contains("Responses"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn the_engine_refuses_foreign_messages_in_every_part_of_the_input() {
    let engine = Engine::new(MemoryStore::new());
    let [question, call, result] = anthropic().map(message);
    let refused = async |input: TurnInput| match engine.begin(input).await {
        Err(HistoryError::Input(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(TurnInput::new(id(), [question.clone(), result.clone()])).await, foreign(1, "tool_result"));
    let resent = TurnInput::new(id(), [question.clone()]).transcript([question.clone(), call, result.clone()]);
    assert_eq!(refused(resent).await, foreign(2, "tool_result"));
    let instead = tower_chat_history::CallOptions::new().store_instead([result]);
    assert_eq!(refused(TurnInput::new(id(), [question]).options(instead)).await, foreign(0, "tool_result"));
}

#[tokio::test]
async fn importing_a_foreign_log_imports_nothing() {
    let store = MemoryStore::new();
    let error = store.conversation(&id()).import(anthropic().map(message)).await.unwrap_err();
    let ImportError::Foreign { position, shape } = &error else { panic!("{error}") };
    assert_eq!((*position, *shape), (1, ForeignShape::AnthropicBlock("tool_use")));
    assert!(!error.to_string().contains("secret"), "{error}");
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), []);
}

#[tokio::test]
async fn a_stored_foreign_reply_can_be_resent() {
    let thinking = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": "Hi"}]});
    let answer = json!({"choices": [{"index": 0, "message": thinking, "finish_reason": "stop"}]});
    let model = service_fn(move |_: Value| {
        let answer = answer.clone();
        async move { Ok::<_, BoxError>(answer) }
    });
    let mut chat =
        ChatHistoryLayer::new(MemoryStore::new(), Json::new().input_mode(InputMode::Transcript)).layer(model);
    let user = json!({"role": "user", "content": "u"});
    for messages in [json!([user]), json!([user, thinking, user])] {
        let call = InConversation::new(id(), json!({"messages": messages}));
        chat.ready().await.unwrap().call(call).await.unwrap();
    }
}
