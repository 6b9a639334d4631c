//! Calls that are repeated after their reply broke off and its text was stored.

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, Engine, ExchangeId, HistoryError, HistoryOptions, HistoryStoreExt as _, InConversation,
    MemoryStore, Message, Policies, Reply, Turn, TurnInput, adapt::Json, engine::InputMode, policy::OnInterruption,
    report::TurnOutcome,
};

use crate::support::{calls, id, texts};

type Chunks = stream::BoxStream<'static, Result<Value, BoxError>>;

fn keep_text_options() -> HistoryOptions {
    HistoryOptions::new().policies(Policies::new().on_interruption(OnInterruption::KeepText))
}

/// Sends the messages in one call, and breaks the stream off after a text.
async fn send_and_break_off(engine: &Engine, mode: InputMode, messages: &[Message]) -> Result<(), BoxError> {
    let llm = service_fn(|_: Value| async {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "Let me"}}]});
        Ok::<Chunks, BoxError>(stream::iter([Ok(chunk)]).boxed())
    });
    let chat = ChatHistoryLayer::from_engine(engine.clone(), Json::new().input_mode(mode)).layer(llm);
    let call = InConversation::new(id(), json!({"model": "m", "messages": messages}));
    let call = call.exchange(ExchangeId::new("mine").unwrap());
    let items = chat.oneshot(call).await?.collect::<Vec<_>>().await;
    assert_eq!(items.len(), 1);
    Ok(())
}

async fn begin(engine: &Engine, input: impl IntoIterator<Item = Message>) -> Turn {
    engine.begin(TurnInput::new(id(), input)).await.unwrap()
}

async fn complete_turn(engine: &Engine, input: impl IntoIterator<Item = Message>, reply: Message) {
    begin(engine, input).await.commit(Reply::new(reply)).await.unwrap();
}

#[tokio::test]
async fn results_can_be_resent_repeatedly_after_replies_that_broke_off() {
    let store = MemoryStore::new();
    let engine = Engine::with_options(store.clone(), keep_text_options());
    complete_turn(&engine, [Message::user("u0")], calls(&["x", "y"])).await;
    let results = [Message::tool("x", "1"), Message::tool("y", "2")];
    for _ in 0..3 {
        send_and_break_off(&engine, InputMode::New, &results).await.unwrap();
    }
    let turn = begin(&engine, results.clone()).await;
    assert_eq!(texts(turn.context()), ["u0", "", "1", "2"], "the earlier attempts are left out");
    let report = turn.commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    assert!(
        matches!(report.outcome, TurnOutcome::Stored { moved: false, .. }),
        "no other exchange was stored in between"
    );
    let log = store.conversation(&id()).exchanges().await.unwrap();
    assert_eq!(log.len(), 5, "the log contains all attempts");
    assert!(log[1..].iter().all(|recorded| recorded.exchange.continues.is_some_and(|seq| seq.get() == 0)));
    let turn = begin(&engine, [Message::user("u1")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "1", "2", "a0", "u1"]);
}

#[tokio::test]
async fn a_question_after_a_partial_reply_sees_the_results_and_the_text() {
    let engine = Engine::with_options(MemoryStore::new(), keep_text_options());
    complete_turn(&engine, [Message::user("u0")], calls(&["x"])).await;
    send_and_break_off(&engine, InputMode::New, &[Message::tool("x", "1")]).await.unwrap();
    let turn = begin(&engine, [Message::user("u1")]).await;
    assert_eq!(texts(turn.context()), ["u0", "", "1", "Let me", "u1"]);
    turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    let Err(HistoryError::Input(_)) = engine.begin(TurnInput::new(id(), [Message::tool("x", "1")])).await else {
        panic!("the turn was continued")
    };
}

#[tokio::test]
async fn a_resent_list_may_repeat_a_call_whose_reply_broke_off() {
    let engine = Engine::with_options(MemoryStore::new(), keep_text_options());
    complete_turn(&engine, [Message::user("u0")], Message::assistant("a0")).await;
    let list = [Message::user("u0"), Message::assistant("a0"), Message::user("u1")];
    for _ in 0..3 {
        send_and_break_off(&engine, InputMode::Transcript, &list).await.unwrap();
    }
    let (transcript, input) = list.split_at(2);
    let again = TurnInput::new(id(), input.to_vec()).transcript(transcript.to_vec());
    let turn = engine.begin(again).await.unwrap();
    assert_eq!(
        texts(turn.context()),
        ["u0", "a0", "u1", "Let me", "u1", "Let me", "u1", "Let me", "u1"],
        "a kept text is a part of the conversation"
    );
    turn.commit(Reply::new(Message::assistant("a1"))).await.unwrap();
    let whole = [&list[..], &[Message::assistant("a1"), Message::user("u2")]].concat();
    send_and_break_off(&engine, InputMode::Transcript, &whole).await.unwrap();
    let shown = [&whole[..], &[Message::assistant("Let me"), Message::user("u3")]].concat();
    send_and_break_off(&engine, InputMode::Transcript, &shown).await.unwrap();
}

#[tokio::test]
async fn a_resent_list_may_repeat_results() {
    let engine = Engine::with_options(MemoryStore::new(), keep_text_options());
    complete_turn(&engine, [Message::user("u0")], calls(&["x"])).await;
    let list = [Message::user("u0"), calls(&["x"]), Message::tool("x", "1")];
    for _ in 0..3 {
        send_and_break_off(&engine, InputMode::Transcript, &list).await.unwrap();
    }
    let again = TurnInput::new(id(), list[2..].to_vec()).transcript(list[..2].to_vec());
    assert_eq!(texts(engine.begin(again).await.unwrap().context()), ["u0", "", "1"]);
}

#[tokio::test]
async fn messages_stored_instead_of_results_can_be_repeated() {
    let engine = Engine::new(MemoryStore::new());
    complete_turn(&engine, [Message::user("u0")], calls(&["x"])).await;
    for _ in 0..2 {
        let instead = tower_chat_history::CallOptions::new().store_instead([Message::tool("x", "short")]);
        let long = TurnInput::new(id(), [Message::tool("x", "long")]).options(instead);
        let turn = engine.begin(long).await.unwrap();
        assert_eq!(texts(turn.context()), ["u0", "", "long"]);
        let mut reply = Reply::new(Message::assistant("Let me"));
        reply.incomplete = true;
        turn.commit(reply).await.unwrap();
    }
    assert_eq!(texts(begin(&engine, [Message::user("u1")]).await.context()), ["u0", "", "short", "Let me", "u1"]);
}
