//! The begin of a turn, or the reason that there is none: the load, the queue, an exchange that is already
//! recorded.

use futures_util::future;
use serde_json::{Value, json};
use std::time::Duration;
use tests::{BOTH_KINDS, CallKind, Chat, Storage, history_error, over_every_store, user_call};
use tower_chat_history::{
    ExchangeId, HistoryError, HistoryOptions, Policies,
    limits::Limits,
    policy::{OnConflict, OnLoadFailure, QueueLimits},
};
use tower_chat_history_test::{Fault, Op, Reply};

use crate::{
    chats::{ask, database, drain},
    trace::traced,
};

over_every_store! {
    #[tokio::test(start_paused = true)]
    a_failed_load,
    a_slow_load,
    a_failed_load_with_a_call_without_history,
    a_caller_that_leaves_during_the_load,
    a_recorded_exchange,
    a_refused_input,
    a_call_over_a_limit,
    the_queue,
    a_full_queue,
    a_wait_for_an_earlier_save,
}

async fn a_failed_load(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
        assert!(!answered);
        assert_eq!(trace.tree(), ["chat_history !unavailable", "  load !unavailable"]);
        trace
            .turn()
            .assert_attributes([("chat_history.outcome", json!("refused")), ("chat_history.history", Value::Null)]);
        let load = trace.one("load");
        load.assert_attributes([("db.system.name", database(&storage)), ("gen_ai.memory.record.count", Value::Null)]);
    }
}

async fn a_slow_load(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, []), storage.conversation());
    storage.store.delay(Op::Load, Duration::from_secs(11));
    let (answered, trace) = traced(ask(&chat, CallKind::Unary, &id, "u")).await;
    assert!(!answered);
    assert_eq!(trace.tree(), ["chat_history !timeout", "  load !timeout"]);
}

async fn a_failed_load_with_a_call_without_history(storage: Storage) {
    for kind in BOTH_KINDS {
        let options =
            HistoryOptions::new().policies(Policies::new().on_load_failure(OnLoadFailure::CallWithoutHistory));
        let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
        storage.store.fail(Op::Load, 1, Fault::Unavailable);
        let (answered, trace) = traced(ask(&chat, kind, &id, "u")).await;
        assert!(answered);
        assert_eq!(trace.tree(), ["chat_history", "  load !unavailable", "  trim", "  chat mock", "  save"]);
        trace.turn().assert_attributes([
            ("chat_history.fallback", json!("without_history")),
            ("chat_history.history", json!("unavailable")),
            ("chat_history.outcome", json!("stored")),
        ]);
    }
}

async fn a_caller_that_leaves_during_the_load(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, []), storage.conversation());
        let (_, trace) = traced(async {
            let held = storage.store.hold(Op::Load);
            tokio::select! {
                biased;
                _ = chat.ask(kind, &id, "u") => panic!("the load is held"),
                () = held.reached(1) => {}
            }
        })
        .await;
        assert_eq!(trace.tree(), ["chat_history", "  load"], "leaving is not a failure");
        trace.turn().assert_attributes([("chat_history.outcome", json!("abandoned"))]);
    }
}

async fn a_recorded_exchange(storage: Storage) {
    for kind in BOTH_KINDS {
        let (chat, id) = (Chat::new(&storage, [Reply::text("a")]), storage.conversation());
        let exchange = ExchangeId::new("e-1").unwrap();
        chat.call(kind, user_call(&id, "u").exchange(exchange.clone())).await.unwrap();
        let (error, trace) = traced(chat.call(kind, user_call(&id, "u").exchange(exchange))).await;
        assert!(matches!(history_error(&error.unwrap_err()), HistoryError::AlreadyRecorded(_)));
        assert_eq!(trace.tree(), ["chat_history", "  load"], "not a failure: the caller gets the recorded exchange");
        trace.turn().assert_attributes([("chat_history.outcome", json!("already_recorded"))]);
    }
}

async fn a_refused_input(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, []), storage.conversation());
    let results = tests::request([tower_chat_history::Message::tool("x", "r")]);
    let call = tower_chat_history::InConversation::new(id, results);
    let (answered, trace) = traced(chat.call(CallKind::Unary, call)).await;
    assert!(answered.is_err());
    assert_eq!(trace.tree(), ["chat_history !input", "  load", "  trim !input"]);
    trace.turn().assert_attributes([("chat_history.outcome", json!("refused"))]);
}

async fn a_call_over_a_limit(storage: Storage) {
    for kind in BOTH_KINDS {
        let options = HistoryOptions::new().limits(Limits::new().max_message_bytes(100).max_exchanges(0));
        let (chat, id) = (Chat::with_options(&storage, [], options), storage.conversation());
        let secret = "secret".repeat(20);
        for (text, tree) in [
            (&*secret, &["chat_history !max_message_bytes"] as &[_]),
            ("u", &["chat_history !max_exchanges", "  load", "  trim"]),
        ] {
            let (answered, trace) = traced(ask(&chat, kind, &id, text)).await;
            assert!(!answered);
            assert_eq!(trace.tree(), tree);
            trace.turn().assert_attributes([("chat_history.outcome", json!("refused"))]);
        }
    }
}

async fn the_queue(storage: Storage) {
    for kind in BOTH_KINDS {
        let queue = OnConflict::Serialize(QueueLimits::new(8, Duration::from_secs(10)));
        let replies = ["a0", "a1"].map(Reply::text);
        let options = HistoryOptions::new().policies(Policies::new().on_conflict(queue));
        let (chat, id) = (Chat::with_options(&storage, replies, options), storage.conversation());
        let (_, trace) = traced(async {
            let held = chat.hold_reply();
            let release = async {
                chat.reached(1).await;
                drop(held);
            };
            let both = future::join3(ask(&chat, kind, &id, "u0"), ask(&chat, kind, &id, "u1"), release).await;
            assert!(both.0 && both.1);
        })
        .await;
        let [first, second] = trace.all("chat_history")[..] else { panic!("two turns") };
        let within = |turn| trace.within(turn).map(|span| span.name.clone()).collect::<Vec<_>>();
        assert_eq!(within(first), ["load", "trim", "chat mock", "save"], "no other call is ahead of it");
        assert_eq!(within(second), ["wait", "load", "trim", "chat mock", "save"]);
        let wait = trace.one("wait");
        wait.assert_attributes([("chat_history.wait.for", json!("queue"))]);
        assert!(
            wait.parent == second.id && wait.end >= trace.all("save")[0].end,
            "it waits for the save of the other call"
        );
        trace.assert_sequential();
    }
}

async fn a_full_queue(storage: Storage) {
    let options = HistoryOptions::new()
        .policies(Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::new(0, Duration::from_secs(10)))));
    let (chat, id) = (Chat::with_options(&storage, [Reply::text("a")], options), storage.conversation());
    let held = chat.hold_reply();
    let first = chat.ask(CallKind::Unary, &id, "u0");
    let second = async {
        chat.reached(1).await;
        let (answered, trace) = traced(chat.ask(CallKind::Unary, &id, "u1")).await;
        drop(held);
        assert!(answered.is_err());
        assert_eq!(trace.tree(), ["chat_history !queue_full", "  wait !queue_full"]);
    };
    future::join(first, second).await.0.unwrap();
}

async fn a_wait_for_an_earlier_save(storage: Storage) {
    let (chat, id) = (Chat::new(&storage, ["a0", "a1"].map(Reply::text)), storage.conversation());
    let held = storage.store.hold(Op::Append);
    tokio::select! {
        biased;
        _ = chat.ask(CallKind::Unary, &id, "u0") => panic!("the save is held"),
        () = held.reached(1) => {}
    }
    let (_, trace) = traced(async {
        let release = async {
            tokio::task::yield_now().await;
            held.release();
        };
        let (answered, ()) = future::join(ask(&chat, CallKind::Unary, &id, "u1"), release).await;
        assert!(answered);
        drain(&chat).await;
    })
    .await;
    assert_eq!(trace.tree(), ["chat_history", "  wait", "  load", "  trim", "  chat mock", "  save"]);
    trace.one("wait").assert_attributes([("chat_history.wait.for", json!("save"))]);
}
