//! Callers that resend their list of messages where only new messages are expected.

use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, HistoryError, HistoryStoreExt as _, InConversation, MemoryStore, Message,
    Reply, TurnInput,
    adapt::{Custom, Json},
    engine::InputMode,
    error::InputError,
};

use crate::support::{calls, id};

async fn refused(engine: &Engine, input: &[Message]) -> InputError {
    match engine.begin(TurnInput::new(id(), input.to_vec())).await {
        Err(HistoryError::Input(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reply_among_new_messages_is_refused_with_advice() {
    let engine = Engine::new(MemoryStore::new());
    let list = [Message::user("u0"), Message::assistant("secret"), Message::user("u1")];
    let error = refused(&engine, &list).await;
    assert_eq!(error, InputError::Resent { position: 1 });
    let text = error.to_string();
    assert!(
        text.contains("InputMode::Transcript") && text.contains("few_shot_messages") && !text.contains("secret"),
        "{text}"
    );
    assert_eq!(refused(&engine, &list[1..2]).await, InputError::Resent { position: 0 });
}

#[tokio::test]
async fn json_and_custom_adapters_refuse_a_resent_list_unless_it_is_expected() {
    let store = MemoryStore::new();
    let list = [Message::user("u0"), Message::assistant("a0"), Message::user("u1")];
    let is_resent = |error: &BoxError| {
        assert!(
            matches!(error.downcast_ref(), Some(HistoryError::Input(InputError::Resent { position: 1 }))),
            "{error}"
        );
    };
    let never = service_fn(|_: Value| async { Err::<Value, BoxError>("the model was called".into()) });
    let mut chat = ChatHistoryLayer::new(store.clone(), Json::new()).layer(never);
    let call = InConversation::new(id(), json!({"messages": list}));
    is_resent(&chat.ready().await.unwrap().call(call).await.unwrap_err());

    let never = service_fn(|_: Vec<Message>| async { Err::<Message, BoxError>("the model was called".into()) });
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|answer: &Message| answer.clone());
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter).layer(never);
    is_resent(&chat.ready().await.unwrap().call(InConversation::new(id(), list.to_vec())).await.unwrap_err());
    assert_eq!(store.conversation(&id()).messages().await.unwrap(), []);

    let echo = service_fn(|messages: Vec<Message>| async move {
        Ok::<_, BoxError>(Message::assistant(format!("I got {}", messages.len())))
    });
    let adapter = Custom::messages(|messages: &mut Vec<Message>| messages).reply(|answer: &Message| answer.clone());
    let mut chat = ChatHistoryLayer::new(store.clone(), adapter.clone()).layer(echo);
    let answer =
        chat.ready().await.unwrap().call(InConversation::new(id(), list.to_vec()).few_shot_messages(2)).await.unwrap();
    assert_eq!(answer.text(), "I got 3", "few-shot messages are head");
    let mut chat = ChatHistoryLayer::new(store, adapter.input_mode(InputMode::Transcript)).layer(echo);
    let list = vec![Message::user("u1"), answer, Message::user("u2")];
    assert_eq!(chat.ready().await.unwrap().call(InConversation::new(id(), list)).await.unwrap().text(), "I got 3");
}

#[tokio::test]
async fn open_calls_that_an_agent_resends_with_their_results_are_refused() {
    let engine = Engine::new(MemoryStore::new());
    let turn = engine.begin(TurnInput::new(id(), [Message::user("u0")])).await.unwrap();
    turn.commit(Reply::new(calls(&["x"]))).await.unwrap();
    let list = [Message::user("u0"), calls(&["x"]), Message::tool("x", "r")];
    assert_eq!(refused(&engine, &list).await, InputError::Resent { position: 1 });
    assert!(engine.begin(TurnInput::new(id(), list[2..].to_vec())).await.is_ok());
}

#[tokio::test]
async fn a_complete_round_made_by_the_caller_is_input() {
    let engine = Engine::new(MemoryStore::new());
    let round = [Message::user("u0"), calls(&["own"]), Message::tool("own", "r"), Message::user("and?")];
    let turn = engine.begin(TurnInput::new(id(), round.clone())).await.unwrap();
    assert_eq!(turn.context(), round);
}
