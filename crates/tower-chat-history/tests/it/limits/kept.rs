//! Nothing is lost when a limit is reached.

use std::time::Duration;

use futures_util::FutureExt as _;
use tower_chat_history::{
    CallOptions, ExchangeId, Policies,
    engine::ToolResults,
    error::StoreResultsError,
    policy::{OnConflict, QueueLimits},
};
use tower_chat_history_test::{FaultStore, Op};

use super::*;

const ONE: &str = "tenant/1";

fn exchange(text: &str) -> ExchangeId {
    ExchangeId::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn results_that_a_rate_refused_can_be_sent_again() {
    let engine = engine(Limits::new().calls_per_minute(1));
    say(&engine, ONE, Message::user("u0"), calls(&["x"])).await.unwrap();
    let before = log(&engine, ONE).await;
    let results = || say(&engine, ONE, Message::tool("x", "r"), Message::assistant("a"));
    let wait = results().await.unwrap_err().retry_after.unwrap();
    assert_eq!(log(&engine, ONE).await, before);
    tokio::time::advance(wait - Duration::from_millis(1)).await;
    assert_eq!(results().await.unwrap_err().retry_after, Some(Duration::from_millis(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(texts(&results().await.unwrap()), ["u0", "", "r"]);
    assert_eq!(log(&engine, ONE).await, ["u0", "", "r", "a"]);
}

/// Another program, or the same one with other options, can take the results that one engine refused.
#[tokio::test]
async fn results_that_were_refused_can_be_sent_under_other_limits() {
    let store = MemoryStore::new();
    let [limited, unlimited] = [Limits::new().max_tool_rounds(1), Limits::new()]
        .map(|limits| Engine::with_options(store.clone(), HistoryOptions::new().limits(limits)));
    say(&limited, ONE, Message::user("u0"), calls(&["x"])).await.unwrap();
    say(&limited, ONE, Message::tool("x", "r0"), calls(&["y"])).await.unwrap();
    let results = |engine| say(engine, ONE, Message::tool("y", "r1"), Message::assistant("a"));
    assert_eq!(results(&limited).await.unwrap_err().kind, LimitKind::ToolRounds);
    assert_eq!(texts(&results(&unlimited).await.unwrap()), ["u0", "", "r0", "", "r1"]);
}

#[tokio::test]
async fn a_new_question_goes_on_after_a_tool_loop_was_refused() {
    let engine = engine(Limits::new().max_tool_rounds(0));
    say(&engine, ONE, Message::user("u0"), calls(&["x"])).await.unwrap();
    let refused = say(&engine, ONE, Message::tool("x", "r"), Message::assistant("a")).await.unwrap_err();
    assert_eq!((refused.limit, refused.found), (0, 1));
    ask(&engine, ONE, "u1").await.unwrap();
    assert_eq!(log(&engine, ONE).await, ["u0", "", "u1", "a"]);
}

/// Results that are stored one by one belong to one round.
#[tokio::test]
async fn rounds_are_counted_and_not_exchanges() {
    let engine = engine(Limits::new().max_tool_rounds(1));
    say(&engine, ONE, Message::user("u0"), calls(&["x", "y"])).await.unwrap();
    let stored = engine.store_results(ToolResults::new(id(ONE), [Message::tool("x", "r")])).await.unwrap();
    assert_eq!(stored.open.len(), 1);
    say(&engine, ONE, Message::tool("y", "r"), calls(&["z"])).await.unwrap();
    let refused = say(&engine, ONE, Message::tool("z", "r"), Message::assistant("a")).await.unwrap_err();
    assert_eq!((refused.limit, refused.found), (1, 2));
    // The next turn begins at 0 again.
    say(&engine, ONE, Message::user("u1"), calls(&["x"])).await.unwrap();
    say(&engine, ONE, Message::tool("x", "r"), Message::assistant("a")).await.unwrap();
}

#[tokio::test]
async fn a_repeated_call_is_answered_from_the_log_under_any_limits() {
    let store = MemoryStore::new();
    let stored = Engine::new(store.clone());
    let call = || TurnInput::new(id(ONE), [Message::user("u0")]).exchange(exchange("e0"));
    stored.begin(call()).await.unwrap().commit(Reply::new(Message::assistant("a0"))).await.unwrap();
    let nothing = Limits::new().max_message_bytes(0).max_exchanges(0).max_conversation_bytes(0).calls_per_minute(0);
    let engine = Engine::with_options(store, HistoryOptions::new().limits(nothing));
    let error = engine.begin(call()).await.unwrap_err();
    let HistoryError::AlreadyRecorded(recorded) = error else { panic!("{error}") };
    assert_eq!(texts(&recorded.exchange.messages), ["u0", "a0"]);
    let new = call().exchange(exchange("e1"));
    assert!(matches!(engine.begin(new).await, Err(HistoryError::Limit(_))));
    let results = ToolResults::new(id(ONE), [Message::tool("x", "r")]).exchange(exchange("e0"));
    assert!(engine.store_results(results).await.unwrap().duplicate);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_takes_nothing_from_a_rate() {
    let engine = engine(Limits::new().calls_per_minute(2));
    let input = |number: usize| TurnInput::new(id(ONE), [Message::user("u")]).exchange(exchange(&format!("e{number}")));
    call(&engine, input(0), Message::assistant("a")).await.unwrap();
    for _ in 0..10 {
        assert!(matches!(engine.begin(input(0)).await, Err(HistoryError::AlreadyRecorded(_))));
    }
    call(&engine, input(1), Message::assistant("a")).await.unwrap();
    assert!(call(&engine, input(2), Message::assistant("a")).await.is_err());
}

#[tokio::test]
async fn a_paid_reply_is_saved_beyond_every_limit() {
    let engine = engine(Limits::new().max_message_bytes(500).max_exchanges(1).max_conversation_bytes(600));
    let input = || TurnInput::new(id(ONE), [Message::user("u")]);
    // Both turns begin before the first one is stored.
    let turns = [engine.begin(input()).await.unwrap(), engine.begin(input()).await.unwrap()];
    for turn in turns {
        turn.commit(Reply::new(Message::assistant("x".repeat(1_000)))).await.unwrap();
    }
    assert_eq!(log(&engine, ONE).await.len(), 4);
    let refused = ask(&engine, ONE, "u").await.unwrap_err();
    assert_eq!((refused.kind, refused.found), (LimitKind::Exchanges, 3));
}

#[tokio::test]
async fn calls_that_store_nothing_are_not_limited_by_the_log() {
    let engine = engine(Limits::new().max_exchanges(1).max_conversation_bytes(100));
    ask(&engine, ONE, "u0").await.unwrap();
    let input = TurnInput::new(id(ONE), [Message::user("u1")]).options(CallOptions::new().dont_store());
    assert_eq!(texts(&call(&engine, input, Message::assistant("a")).await.unwrap()), ["u0", "a", "u1"]);
    assert_eq!(ask(&engine, ONE, "u2").await.unwrap_err().kind, LimitKind::Exchanges);
}

#[tokio::test]
async fn messages_that_are_stored_instead_are_limited_too() {
    let engine = engine(Limits::new().max_message_bytes(200).max_conversation_bytes(300));
    let input = |asked: usize, stored: usize| {
        let stored = Message::user("s".repeat(stored));
        let options = CallOptions::new().store_instead([stored]);
        TurnInput::new(id(ONE), [Message::user("a".repeat(asked))]).options(options)
    };
    let refused = |asked, stored| {
        let (engine, input) = (&engine, input(asked, stored));
        async move { call(engine, input, Message::assistant("a")).await.err().map(|exceeded| exceeded.kind) }
    };
    assert_eq!(refused(10, 300).await, Some(LimitKind::MessageBytes));
    assert_eq!(refused(300, 10).await, Some(LimitKind::MessageBytes));
    // Only the stored messages count toward the size of the conversation.
    for _ in 0..2 {
        assert_eq!(refused(160, 10).await, None);
    }
    assert_eq!(refused(10, 160).await, Some(LimitKind::ConversationBytes));
}

#[tokio::test]
async fn results_are_stored_in_a_full_conversation_but_not_beyond_the_size_of_a_message() {
    let engine = engine(Limits::new().max_message_bytes(200).max_input_bytes(300).max_exchanges(1).calls_per_minute(1));
    say(&engine, ONE, Message::user("u0"), calls(&["x", "y"])).await.unwrap();
    let store = |results: Vec<Message>| engine.store_results(ToolResults::new(id(ONE), results));
    let result = |id, bytes| Message::tool(id, "r".repeat(bytes));
    for (results, kind) in [
        (vec![result("x", 300)], LimitKind::MessageBytes),
        (vec![result("x", 120), result("y", 120)], LimitKind::InputBytes),
    ] {
        let Err(StoreResultsError::History(HistoryError::Limit(exceeded))) = store(results).await else { panic!() };
        assert_eq!(exceeded.kind, kind);
    }
    store(vec![result("x", 120)]).await.unwrap();
    assert!(store(vec![result("y", 120)]).await.unwrap().open.is_empty());
}

/// A refused call does not reach the store, unless its exchange id has to be looked up.
#[tokio::test]
async fn a_refused_call_loads_nothing() {
    let store = FaultStore::new(MemoryStore::new());
    let options = HistoryOptions::new().limits(Limits::new().calls_per_minute(0));
    let engine = Engine::with_options(store.clone(), options);
    assert!(ask(&engine, ONE, "u").await.is_err());
    assert_eq!(store.calls(Op::Load), 0);
    let named = TurnInput::new(id(ONE), [Message::user("u")]).exchange(exchange("e0"));
    assert!(call(&engine, named, Message::assistant("a")).await.is_err());
    assert_eq!(store.calls(Op::Load), 1);
}

/// The replies of the turn were paid for, so it can be finished.
#[tokio::test]
async fn a_turn_that_began_in_a_conversation_with_room_reaches_its_final_reply() {
    let engine = engine(Limits::new().max_exchanges(1).max_conversation_bytes(300));
    say(&engine, ONE, Message::user("u0"), calls(&["x"])).await.unwrap();
    say(&engine, ONE, Message::tool("x", "r".repeat(300)), calls(&["y"])).await.unwrap();
    say(&engine, ONE, Message::tool("y", "r"), Message::assistant("a")).await.unwrap();
    assert_eq!(ask(&engine, ONE, "u1").await.unwrap_err().kind, LimitKind::Exchanges);
}

#[tokio::test]
async fn rounds_of_one_input_are_counted() {
    let engine = engine(Limits::new().max_tool_rounds(2));
    let round = |call| [calls(&[call]), Message::tool(call, "r")];
    let input = |messages: Vec<Message>| TurnInput::new(id(ONE), messages);
    let rounds = |names: &[&'static str]| -> Vec<Message> { names.iter().flat_map(|name| round(*name)).collect() };
    let ask = |names: &[&'static str]| {
        let messages = [Message::user("u")].into_iter().chain(rounds(names)).collect();
        call(&engine, input(messages), calls(&["z"]))
    };
    assert_eq!(ask(&["v", "w", "x"]).await.unwrap_err().found, 3);
    ask(&["v", "w"]).await.unwrap();
    let refused = say(&engine, ONE, Message::tool("z", "r"), Message::assistant("a")).await.unwrap_err();
    assert_eq!(refused.found, 3);
    assert_eq!(refused.to_string(), "the number of the turn's rounds of tool calls would be 3, and the limit is 2");
}

/// A call over a rate does not wait for the calls ahead of it, although its exchange id is looked up.
#[tokio::test]
async fn a_refused_call_with_an_id_does_not_wait_in_the_queue() {
    let policies = Policies::new().on_conflict(OnConflict::Serialize(QueueLimits::default()));
    let options = HistoryOptions::new().limits(Limits::new().calls_per_minute(1)).policies(policies);
    let engine = Engine::with_options(MemoryStore::new(), options);
    let input = |name| TurnInput::new(id(ONE), [Message::user("u")]).exchange(exchange(name));
    let ahead = engine.begin(input("e0")).await.unwrap();
    let refused = engine.begin(input("e1")).now_or_never();
    assert!(matches!(refused, Some(Err(HistoryError::Limit(_)))));
    ahead.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    let repeated = engine.begin(input("e0")).now_or_never();
    assert!(matches!(repeated, Some(Err(HistoryError::AlreadyRecorded(_)))));
}

#[tokio::test]
async fn results_that_are_too_large_load_nothing() {
    let store = FaultStore::new(MemoryStore::new());
    let options = HistoryOptions::new().limits(Limits::new().max_message_bytes(100));
    let engine = Engine::with_options(store.clone(), options);
    let results = |bytes| ToolResults::new(id(ONE), [Message::tool("x", "r".repeat(bytes))]);
    assert!(engine.store_results(results(100)).await.is_err());
    assert_eq!(store.calls(Op::Load), 0);
    // An exchange id has to be looked up.
    assert!(engine.store_results(results(100).exchange(exchange("e0"))).await.is_err());
    assert_eq!(store.calls(Op::Load), 1);
}
