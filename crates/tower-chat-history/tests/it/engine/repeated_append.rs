//! An append whose answer was lost is repeated, and the store reports it as a duplicate of itself.

use std::{sync::Arc, time::Duration};

use tower_chat_history::{
    Engine, ExchangeId, HistoryOptions, HistoryStore, HistoryStoreExt as _, MemoryStore, Message, Reply, Retention,
    TurnInput, TurnReport, report::Outcome,
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
    assert!(compaction.cut.summary.is_some(), "summaries were made");
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
        assert!(matches!(report.outcome, Outcome::Duplicate { .. }), "{:?}", report.outcome);
        assert_eq!(stored(&store).await, 1);
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
