//! Every extractor.

use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, CallOptions, ChatHistoryLayer, ConversationId, ExchangeId, HistoryError, MemoryStore, Message,
    MissingConversation,
    adapt::{CallScope, Custom, Json, extract::stateless},
    in_conversation,
    store::ConversationIdError,
};

use super::{Chat, conversation, echo, echo_json, id, log, user};

#[tokio::test]
async fn a_closure_finds_the_scope_in_the_request() {
    let adapter = Json::new().id_from(|request: &Value| match request["user"].as_str() {
        Some("nobody") => Some(CallScope::Stateless),
        Some(user) => {
            let options = CallOptions::new().exchange(ExchangeId::new("fixed").unwrap()).few_shot_messages(1);
            Some(CallScope::Conversation(id(&[user]), options))
        }
        None => None,
    });
    let store = MemoryStore::new();
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(echo_json(&request)) });
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let request = |user: &str| json!({"user": user, "messages": [{"role": "user", "content": "shown"}, {"role": "user", "content": "a"}]});

    chat.ready().await.unwrap().call(request("ann")).await.unwrap();
    assert_eq!(log(&store, &id(&["ann"])).await, ["a", "shown|a"]);
    let error = chat.ready().await.unwrap().call(request("ann")).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(HistoryError::AlreadyRecorded(_))));

    chat.ready().await.unwrap().call(request("nobody")).await.unwrap();
    assert!(log(&store, &id(&["nobody"])).await.is_empty());

    let error = chat.ready().await.unwrap().call(user("a")).await.unwrap_err();
    assert!(error.is::<MissingConversation>());
}

#[tokio::test]
async fn an_extractors_error_is_passed_on() {
    let adapter = Json::new().id_from(|request: &Value| ConversationId::new([request["user"].as_str().unwrap_or("")]));
    let llm = service_fn(|_: Value| async { Err::<Value, BoxError>("the model was called".into()) });
    let chat = ChatHistoryLayer::new(MemoryStore::new(), adapter).layer(llm);
    assert!(chat.oneshot(user("a")).await.unwrap_err().is::<ConversationIdError>());
}

#[tokio::test]
async fn the_running_task_determines_the_conversation() {
    let store = MemoryStore::new();
    let llm = service_fn(|request: Value| async move { Ok::<_, BoxError>(echo_json(&request)) });
    let chat = ChatHistoryLayer::new(store.clone(), Json::new().id_from_task()).layer(llm);

    let missing = chat.clone().oneshot(user("a")).await.unwrap_err();
    assert!(missing.is::<MissingConversation>());
    let other = id(&["tests", "two"]);
    in_conversation(conversation(), async {
        chat.clone().oneshot(user("a")).await.unwrap();
        stateless(chat.clone().oneshot(user("b"))).await.unwrap();
        in_conversation(other.clone(), chat.clone().oneshot(user("c"))).await.unwrap();
        chat.clone().oneshot(user("d")).await.unwrap();
        let spawned = tokio::spawn(chat.clone().oneshot(user("e"))).await.unwrap();
        assert!(spawned.unwrap_err().is::<MissingConversation>(), "a spawned task is outside of the scope");
    })
    .await;
    assert_eq!(log(&store, &conversation()).await, ["a", "a", "d", "a|a|d"]);
    assert_eq!(log(&store, &other).await, ["c", "c"]);
}

#[tokio::test]
async fn extractors_work_with_every_adapter() {
    let store = MemoryStore::new();
    let adapter = Custom::messages(|chat: &mut Chat| &mut chat.messages)
        .reply(|answer: &Message| answer.clone())
        .id_from(|chat: &Chat| id(&["t", &chat.temperature.to_string()]));
    let llm = service_fn(|chat: Chat| async move { Ok::<_, BoxError>(echo(&chat.messages)) });
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(llm);
    let request = || Chat { temperature: 0.5, messages: vec![Message::user("a")] };
    chat.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!(chat.ready().await.unwrap().call(request()).await.unwrap().text(), "a|a|a");
    assert_eq!(log(&store, &id(&["t", "0.5"])).await.len(), 4);
}
