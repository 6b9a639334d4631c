//! Saves: failed, retried, and after an exchange of another call.

use std::time::Duration;

use futures_util::future;
use serde_json::{Value, json};
use tests::{BOTH_KINDS, CallKind, Chat, Storage, over_every_store, user_call};
use tower_chat_history::{ExchangeId, HistoryOptions, Policies, policy::OnConflict};
use tower_chat_history_test::{Fault, Op, Reply};

use crate::{
    chats::{ask, drain},
    trace::{Trace, traced},
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_failed_save,
    a_slow_save,
    a_save_that_is_retried,
    another_exchange_came_first,
    another_exchange_came_first_and_is_a_conflict,
    the_same_exchange_came_first,
}

async fn a_failed_save(storage: Storage) {
    for (fault, error_type, attempts) in [
        (Fault::Unavailable, "unavailable", 3),
        (Fault::Backend, "backend", 1),
        (Fault::Gone, "gone", 1),
        (Fault::Conflict, "conflict", 1),
    ] {
        for kind in BOTH_KINDS {
            let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
            storage.store.fail(Op::Append, attempts, fault);
            let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
            assert_eq!(answered, kind == CallKind::Stream);
            let (turn, save) = (format!("chat_history !{error_type}"), format!("  save !{error_type}"));
            assert_eq!(trace.tree(), [turn.as_str(), "  load", "  trim", "  chat mock", &save]);
            let rejected = ["gone", "conflict"].contains(&error_type);
            trace.one("save").assert_attributes([
                ("chat_history.save.attempts", json!(attempts)),
                ("chat_history.save.conflict", if rejected { json!("rejected") } else { Value::Null }),
                ("chat_history.version", Value::Null),
                ("chat_history.messages.saved", json!(2)),
            ]);
            trace
                .turn()
                .assert_attributes([("chat_history.outcome", json!("failed")), ("chat_history.version", Value::Null)]);
            trace.one("chat mock").assert_attributes([("chat_history.call.outcome", json!("complete"))]);
        }
    }
}

async fn a_slow_save(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
    storage.store.delay(Op::Append, Duration::from_secs(11));
    let (answered, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
    assert!(!answered);
    let tree = ["chat_history !timeout", "  load", "  trim", "  chat mock", "  save !timeout"];
    assert_eq!(trace.tree(), tree);
}

async fn a_save_that_is_retried(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
    storage.store.fail(Op::Append, 2, Fault::Unavailable);
    let (answered, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
    assert!(answered);
    assert_eq!(trace.tree(), ["chat_history", "  load", "  trim", "  chat mock", "  save"]);
    let save = trace.one("save");
    save.assert_attributes([("chat_history.save.attempts", json!(3)), ("chat_history.save.conflict", Value::Null)]);
    assert_eq!(save.events.len(), 2, "each failed attempt is logged");
}

/// Makes two calls in one conversation, and returns the trace of the first one. The second one is stored
/// after the first one has loaded.
async fn overtaken(storage: &Storage, options: HistoryOptions, exchange: Option<ExchangeId>) -> Trace {
    let chat = Chat::with_options(storage, ["a0", "a1", "a2"].map(Reply::text), options);
    let id = storage.conversation();
    chat.ask(CallKind::Unary, &id, "u0").await.unwrap();
    let call = |text| {
        let call = user_call(&id, text);
        if let Some(exchange) = exchange.clone() { call.exchange(exchange) } else { call }
    };
    let held = chat.hold_reply();
    let first = traced(async {
        let _ = chat.call(CallKind::Unary, call("u1")).await;
        drain(&chat).await;
    });
    let second = async {
        chat.reached(2).await;
        chat.call(CallKind::Unary, call("u2")).await.unwrap();
        drop(held);
    };
    future::join(first, second).await.0.1
}

async fn another_exchange_came_first(storage: Storage) {
    let trace = overtaken(&storage, HistoryOptions::new(), None).await;
    assert_eq!(trace.tree(), ["chat_history", "  load", "  trim", "  chat mock", "  save"]);
    trace
        .one("save")
        .assert_attributes([("chat_history.save.conflict", json!("rebased")), ("chat_history.version", json!(3))]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("stored")), ("chat_history.version", json!(3))]);
}

async fn another_exchange_came_first_and_is_a_conflict(storage: Storage) {
    let trace =
        overtaken(&storage, HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject)), None)
            .await;
    let tree = ["chat_history !conflict", "  load", "  trim", "  chat mock", "  save !conflict"];
    assert_eq!(trace.tree(), tree);
    trace
        .one("save")
        .assert_attributes([("chat_history.save.conflict", json!("rejected")), ("chat_history.version", Value::Null)]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("failed"))]);
}

async fn the_same_exchange_came_first(storage: Storage) {
    let trace = overtaken(&storage, HistoryOptions::new(), Some(ExchangeId::new("e-1").unwrap())).await;
    assert_eq!(trace.tree(), ["chat_history", "  load", "  trim", "  chat mock", "  save"]);
    trace
        .one("save")
        .assert_attributes([("chat_history.save.conflict", json!("duplicate")), ("chat_history.version", json!(2))]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("duplicate"))]);
}
