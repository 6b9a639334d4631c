//! An append whose answer was lost is repeated, and the store reports it as a duplicate of itself.

use std::{sync::Arc, time::Duration};

use tower_chat_history::{
    Engine, ExchangeId, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore, Message, Reply, Retention,
    TurnInput, TurnReport,
    report::TurnOutcome,
    store::{Derived, Load, Loaded, Prune as _, PruneTo},
};
use tower_chat_history_test::{FaultStore, Op};

use super::{conversation, summarizing_options, turn, window};

async fn stored(store: &dyn HistoryStore) -> usize {
    store.conversation(&conversation("c")).exchanges().await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_append_is_reported_as_stored_and_ends_its_turn() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = Engine::with_retention(store.clone(), summarizing_options(), Retention::LastTurns(4));
    for number in 0..12 {
        store.lose_answers(Op::Append, 1);
        store.pass(Op::Append, 1);
        let report = turn(&engine, "c").await;
        assert_eq!(report.outcome.kind(), "stored", "turn {number}");
        engine.drain(Duration::from_secs(10)).await.unwrap();
    }
    assert!(stored(&store).await <= 5, "the log was pruned");
    let compaction = window(&store, "c").await.compaction.unwrap();
    assert!(compaction.derived.is_some(), "summaries were made");
}

async fn replies(store: &dyn HistoryStore) -> Vec<String> {
    let log = store.conversation(&conversation("c")).exchanges().await.unwrap();
    log.iter().map(|recorded| recorded.exchange.messages[1].text().into_owned()).collect()
}

async fn commit(engine: &Engine, id: Option<&str>, reply: &str) -> Arc<TurnReport> {
    let mut input = TurnInput::new(conversation("c"), [Message::user("u")]);
    input.options.exchange = id.map(|id| ExchangeId::new(id).unwrap());
    let turn = engine.begin(input).await.unwrap();
    turn.commit(Reply::new(Message::assistant(reply))).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_append_with_the_callers_id_is_reported_as_stored() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = Engine::new(store.clone());
    store.lose_answers(Op::Append, 1);
    assert_eq!(commit(&engine, Some("mine"), "a").await.outcome.kind(), "stored");
}

/// Another process's call with the same id is stored first. The outcome is the same whether or not this append
/// is repeated.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_another_call_recorded_is_a_duplicate() {
    for fails_first in [false, true] {
        let store = FaultStore::new(MemoryStore::new());
        let engine = Engine::new(store.clone());
        let mut input = TurnInput::new(conversation("c"), [Message::user("u")]);
        input.options.exchange = Some(ExchangeId::new("shared").unwrap());
        let late = engine.begin(input).await.unwrap();
        commit(&Engine::new(store.clone()), Some("shared"), "first").await;
        if fails_first {
            store.fail(Op::Append, 1, tower_chat_history_test::Fault::Unavailable);
        }
        let report = late.commit(Reply::new(Message::assistant("second"))).await.unwrap();
        assert!(matches!(report.outcome, TurnOutcome::Duplicate { .. }), "{:?}", report.outcome);
        assert_eq!(stored(&store).await, 1);
    }
}

/// The first attempt stores the exchange, its answer is lost, and another engine prunes it before the save is repeated.
/// A repetition would store it again, after newer exchanges.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_may_have_been_pruned_is_not_stored_again() {
    for id in [None, Some("mine")] {
        // The number of turns of the other engine, and the outcome. Some prune the exchange, some only those before it.
        for (turns, expected) in
            [(0, Ok("stored")), (1, Ok("stored")), (2, Err("unknown_outcome")), (5, Err("unknown_outcome"))]
        {
            let store = FaultStore::new(MemoryStore::new());
            let engine = Engine::new(store.clone());
            let inner = store.get_ref().clone();
            let other = Engine::with_retention(inner.clone(), HistoryOptions::new(), Retention::LastTurns(2));
            commit(&other, None, "first").await;
            let mut input = TurnInput::new(conversation("c"), [Message::user("u")]);
            input.options.exchange = id.map(|id| ExchangeId::new(id).unwrap());
            let turn = engine.begin(input).await.unwrap();
            store.lose_answers(Op::Append, 1);
            let save = tokio::spawn(turn.commit(Reply::new(Message::assistant("once"))));
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert_eq!(replies(&inner).await, ["first", "once"], "the first attempt stored it");
            for _ in 0..turns {
                commit(&other, None, "later").await;
            }
            let before = replies(&inner).await;
            let saved = save.await.unwrap();
            let outcome = saved.as_ref().map(|report| report.outcome.kind()).map_err(|unsaved| unsaved.reason().kind());
            assert_eq!(outcome, expected, "{turns} turns");
            assert_eq!(replies(&inner).await, before, "the repetition stores nothing");
            assert_eq!(before.contains(&"once".to_owned()), expected.is_ok());
        }
    }
}

/// The log was pruned beyond the position at the time of the load, and still has the exchange.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_is_in_a_pruned_log_is_reported_as_stored() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = Engine::new(store.clone());
    let inner = store.get_ref().clone();
    let other = Engine::with_retention(inner.clone(), HistoryOptions::new(), Retention::LastTurns(1));
    commit(&other, None, "first").await;
    let turn = engine.begin(TurnInput::new(conversation("c"), [Message::user("u")])).await.unwrap();
    for _ in 0..3 {
        commit(&Engine::new(inner.clone()), None, "later").await;
    }
    store.lose_answers(Op::Append, 1);
    let save = tokio::spawn(turn.commit(Reply::new(Message::assistant("once"))));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let Loaded::Window(window) = inner.load(&conversation("c"), Load::new()).await.unwrap() else { panic!("absent") };
    inner.prune(&conversation("c"), window.revision.incarnation(), PruneTo::LastTurns(1), Derived::Keep).await.unwrap();
    assert_eq!(replies(&inner).await, ["once"]);
    assert_eq!(save.await.unwrap().unwrap().outcome.kind(), "stored");
    assert_eq!(replies(&inner).await, ["once"]);
    assert_eq!(store.calls(Op::Append), 1, "it is found before the append is repeated");
}

/// The look at the exchange under the caller's id is repeated. If it fails each time, nothing is acknowledged.
#[tokio::test(start_paused = true)]
async fn an_exchange_that_cannot_be_compared_is_not_reported_as_stored() {
    for (failed_looks, first_is_own, expected) in [
        (0, false, Ok("duplicate")),
        (2, false, Ok("duplicate")),
        (2, true, Ok("stored")),
        (3, false, Err("unknown_outcome")),
        (3, true, Err("unknown_outcome")),
    ] {
        let store = FaultStore::new(MemoryStore::new());
        let engine = Engine::new(store.clone());
        let mut input = TurnInput::new(conversation("c"), [Message::user("u")]);
        input.options.exchange = Some(ExchangeId::new("shared").unwrap());
        let turn = engine.begin(input).await.unwrap();
        if first_is_own {
            store.lose_answers(Op::Append, 1);
        } else {
            store.fail(Op::Append, 1, tower_chat_history_test::Fault::Unavailable);
        }
        let save = tokio::spawn(turn.commit(Reply::new(Message::assistant("own"))));
        tokio::time::sleep(Duration::from_millis(10)).await;
        if !first_is_own {
            commit(&Engine::new(store.get_ref().clone()), Some("shared"), "other").await;
        }
        store.fail(Op::Load, failed_looks, tower_chat_history_test::Fault::Unavailable);
        let saved = save.await.unwrap();
        let outcome = saved.as_ref().map(|report| report.outcome.kind()).map_err(|unsaved| unsaved.reason().kind());
        assert_eq!(outcome, expected, "{failed_looks} failed looks, own: {first_is_own}");
        assert_eq!(replies(store.get_ref()).await, [if first_is_own { "own" } else { "other" }]);
    }
}

/// A duplicate ends its turn too: the conversation is pruned even if another call recorded the last exchange.
#[tokio::test(start_paused = true)]
async fn a_duplicate_ends_its_turn_too() {
    let store = FaultStore::new(MemoryStore::new());
    let engine = Engine::with_retention(store.clone(), HistoryOptions::new(), Retention::LastTurns(1));
    let other = Engine::new(store.clone());
    for _ in 0..4 {
        commit(&other, None, "a").await;
    }
    let mut input = TurnInput::new(conversation("c"), [Message::user("u")]);
    input.options.exchange = Some(ExchangeId::new("shared").unwrap());
    let late = engine.begin(input).await.unwrap();
    commit(&other, Some("shared"), "first").await;
    let report = late.commit(Reply::new(Message::assistant("second"))).await.unwrap();
    assert_eq!(report.outcome.kind(), "duplicate");
    assert_eq!(stored(&store).await, 1);
}
