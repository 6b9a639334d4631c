//! Tool results that are stored without a turn.

use serde_json::json;
use tests::{Storage, over_every_store};
use tower_chat_history::{
    ConversationId, Engine, HistoryOptions, Message, Reply, Telemetry, TurnInput, engine::ToolResults,
};
use tower_chat_history_test::{Fault, Op};

use crate::trace::traced;

over_every_store! {
    #[tokio::test(start_paused = true)]
    results_are_stored_within_the_span_of_the_caller,
    results_are_checked_again_after_a_conflict,
    results_have_no_spans_if_the_options_disable_spans,
}

/// Returns an engine and a conversation whose last reply has one open call.
async fn open_call(storage: &Storage) -> (Engine, ConversationId) {
    open_call_with(storage, HistoryOptions::new()).await
}

async fn open_call_with(storage: &Storage, options: HistoryOptions) -> (Engine, ConversationId) {
    let (engine, id) = (Engine::with_options(storage.store.clone(), options), storage.conversation());
    let turn = engine.begin(TurnInput::new(id.clone(), [Message::user("u")])).await.unwrap();
    let call = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    turn.commit(Reply::new(Message::from_json(call).unwrap())).await.unwrap();
    (engine, id)
}

fn results(id: &ConversationId) -> ToolResults {
    ToolResults::new(id.clone(), [Message::tool("c", "r")])
}

async fn results_are_stored_within_the_span_of_the_caller(storage: Storage) {
    let (engine, id) = open_call(&storage).await;
    let (stored, trace) = traced(engine.store_results(results(&id))).await;
    assert!(stored.unwrap().open.is_empty());
    assert_eq!(trace.tree(), ["load", "save"]);
    trace.one("load").assert_attributes([("gen_ai.memory.record.count", json!(1))]);
    trace
        .one("save")
        .assert_attributes([("chat_history.messages.saved", json!(1)), ("chat_history.version", json!(2))]);
}

async fn results_are_checked_again_after_a_conflict(storage: Storage) {
    let (engine, id) = open_call(&storage).await;
    storage.store.fail(Op::Append, 1, Fault::Conflict);
    let (stored, trace) = traced(engine.store_results(results(&id))).await;
    stored.unwrap();
    assert_eq!(trace.tree(), ["load", "save !conflict", "load", "save"]);
    trace.all("save")[0].assert_attributes([("chat_history.save.conflict", json!("rejected"))]);
}

async fn results_have_no_spans_if_the_options_disable_spans(storage: Storage) {
    let options = HistoryOptions::new().telemetry(Telemetry::new().spans(false));
    let (engine, id) = open_call_with(&storage, options).await;
    // The second attempt of the load and the append has none either.
    storage.store.fail(Op::Append, 1, Fault::Conflict);
    let (stored, trace) = traced(engine.store_results(results(&id))).await;
    assert!(stored.unwrap().open.is_empty());
    assert!(trace.spans.is_empty(), "{:?}", trace.tree());
}
