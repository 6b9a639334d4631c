//! Retention: the time of a prune, and the effect of a failed prune on its turn.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tokio_test::task;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_chat_history::{
    BoxError, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStore as _, HistoryStoreExt as _,
    MemoryStore, Message, Policies, Reply, Retention, TurnInput, TurnReport,
    policy::OnConflict,
    report::TurnOutcome,
    store::{Prune as _, Seq},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use crate::support::{Plain, Request, ask, id, log};

type Store = FaultStore<MemoryStore>;

fn store_and_engine(retention: Retention) -> (Store, Engine) {
    let store = FaultStore::new(MemoryStore::new());
    (store.clone(), Engine::with_retention(store, HistoryOptions::new(), retention))
}

/// Runs one turn of a question and an answer.
async fn turn(engine: &Engine, text: &str) -> Arc<TurnReport> {
    let turn = engine.begin(TurnInput::new(id(), [Message::user(text)])).await.unwrap();
    turn.commit(Reply::new(Message::assistant("a"))).await.unwrap()
}

/// Runs one turn with a tool call: two exchanges of two messages each.
async fn tool_turn(engine: &Engine) {
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let first = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    first.commit(Reply::new(Message::from_json(call).unwrap())).await.unwrap();
    let second = engine.begin(TurnInput::new(id(), [Message::tool("x", "r")])).await.unwrap();
    second.commit(Reply::new(Message::assistant("a"))).await.unwrap();
}

async fn first_and_len(store: &Store) -> (u64, usize) {
    let page = store.get_ref().read(&id(), Seq::FIRST, 1_000).await.unwrap();
    (page.revision.unwrap().first().get(), page.exchanges.len())
}

#[tokio::test]
async fn the_last_turns_are_kept() {
    let (store, engine) = store_and_engine(Retention::LastTurns(3));
    for n in 0..8_u64 {
        let report = turn(&engine, "u").await;
        let kept = (n + 1).min(3);
        assert_eq!(first_and_len(&store).await, (n + 1 - kept, usize::try_from(kept).unwrap()));
        assert!(matches!(report.outcome, TurnOutcome::Stored { seq, .. } if seq == Seq::new(n)));
        // The report has the revision after the prune, which a caller needs to continue.
        let page = store.read(&id(), Seq::FIRST, 0).await.unwrap();
        assert_eq!(report.revision(), page.revision);
    }
}

#[tokio::test]
async fn a_log_may_exceed_the_retention_by_a_quarter() {
    let (store, engine) = store_and_engine(Retention::LastTurns(20));
    let mut most = 0;
    for _ in 0..200 {
        turn(&engine, "u").await;
        let (_, len) = first_and_len(&store).await;
        most = most.max(len);
        assert!(store.calls(Op::Append) < 20 || len >= 20, "{len}");
    }
    assert_eq!((most, store.calls(Op::Prune)), (25, 180 / 6));
}

#[tokio::test]
async fn turns_are_counted_instead_of_exchanges() {
    let (store, engine) = store_and_engine(Retention::LastTurns(8));
    for n in 1..=40 {
        tool_turn(&engine).await;
        let (_, len) = first_and_len(&store).await;
        assert!(len >= 2 * n.min(8) && len <= 20, "{len}");
    }
    assert!(store.calls(Op::Prune) <= 40 / 3, "{}", store.calls(Op::Prune));
}

#[tokio::test]
async fn the_last_messages_are_kept() {
    let (store, engine) = store_and_engine(Retention::LastMessages(16));
    for n in 1..=40 {
        tool_turn(&engine).await;
        let messages = 2 * first_and_len(&store).await.1;
        assert!(messages >= (4 * n).min(16) && messages <= 20, "{messages}");
    }
    assert!(store.calls(Op::Prune) <= 80 / 3, "{}", store.calls(Op::Prune));
}

#[tokio::test]
async fn the_first_turn_of_a_process_prunes_an_earlier_log() {
    let store = FaultStore::new(MemoryStore::new());
    for _ in 0..50 {
        turn(&Engine::new(store.clone()), "u").await;
    }
    let engine = Engine::with_retention(store.clone(), HistoryOptions::new(), Retention::LastTurns(8));
    turn(&engine, "u").await;
    assert_eq!((first_and_len(&store).await, store.calls(Op::Prune)), ((43, 8), 1));
}

#[tokio::test]
async fn conversations_that_are_short_are_never_pruned() {
    let (store, engine) = store_and_engine(Retention::LastTurns(8));
    for n in 0..20 {
        let id = ConversationId::new(["short".to_owned(), n.to_string()]).unwrap();
        for _ in 0..8 {
            let turn = engine.begin(TurnInput::new(id.clone(), [Message::user("u")])).await.unwrap();
            turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
        }
    }
    assert_eq!(store.calls(Op::Prune), 0);
}

#[tokio::test]
async fn a_failed_prune_is_retried_by_the_next_turn() {
    for fault in [Fault::Unavailable, Fault::Backend, Fault::Gone] {
        let (store, engine) = store_and_engine(Retention::LastTurns(8));
        store.fail(Op::Prune, 2, fault);
        for _ in 0..10 {
            turn(&engine, "u").await;
        }
        assert_eq!((first_and_len(&store).await.1, store.calls(Op::Prune)), (10, 2), "no turn failed");
        turn(&engine, "u").await;
        assert_eq!(first_and_len(&store).await, (3, 8));
    }
}

#[tokio::test]
async fn a_lost_answer_of_a_prune_is_repeated_by_the_next_turn() {
    let (store, engine) = store_and_engine(Retention::LastTurns(2));
    store.lose_answers(Op::Prune, 1);
    for n in 0..4 {
        let report = turn(&engine, "u").await;
        assert!(matches!(report.outcome, TurnOutcome::Stored { .. }), "{n}");
    }
    assert_eq!(first_and_len(&store).await, (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_slow_prune_times_out() {
    let (store, engine) = store_and_engine(Retention::LastTurns(1));
    turn(&engine, "u").await;
    store.delay(Op::Prune, Duration::from_secs(60));
    let before = Instant::now();
    turn(&engine, "u").await;
    assert_eq!(before.elapsed().as_secs(), 10, "the store timeout");
    store.mend();
    turn(&engine, "u").await;
    assert_eq!(first_and_len(&store).await, (2, 1));
}

/// The prune is part of the save: if the caller leaves, it still completes, and the next turn waits for it.
#[tokio::test]
async fn a_prune_completes_if_the_caller_leaves() {
    let (store, engine) = store_and_engine(Retention::LastTurns(1));
    turn(&engine, "u").await;
    let held = store.hold(Op::Prune);
    let begun = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    let mut commit = task::spawn(begun.commit(Reply::new(Message::assistant("a"))));
    assert!(commit.poll().is_pending());
    assert_eq!((held.waiting(), engine.pending_saves()), (1, 1));
    drop(commit);
    let mut next = task::spawn(engine.begin(TurnInput::new(id(), [Message::user("u")])));
    assert!(next.poll().is_pending());
    held.release();
    let turn = next.await.unwrap();
    assert_eq!(turn.window().len(), 2);
    assert_eq!(first_and_len(&store).await, (1, 1));
}

/// A turn that began before a prune is stored after it, even if it expects the revision before the prune.
#[tokio::test]
async fn a_turn_in_flight_survives_a_prune() {
    let store = FaultStore::new(MemoryStore::new());
    let options = HistoryOptions::new().policies(Policies::new().on_conflict(OnConflict::Reject));
    let engine = Engine::with_options(store.clone(), options);
    for _ in 0..3 {
        turn(&engine, "u").await;
    }
    let begun = engine.begin(TurnInput::new(id(), [Message::user("late")])).await.unwrap();
    store.conversation(&id()).keep_last_turns(1).await.unwrap();
    begun.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    assert_eq!(log(&store).await, ["u", "a", "late", "a"]);
}

#[tokio::test]
async fn a_layer_keeps_the_retention_of_its_engine_when_its_budget_is_set() {
    let (store, engine) = store_and_engine(Retention::LastTurns(2));
    let llm = service_fn(|_: Request| async { Ok::<_, BoxError>(Message::assistant("a")) });
    let layer = ChatHistoryLayer::from_engine(engine, Plain);
    for n in 0..4 {
        layer.layer(llm).oneshot(ask(&format!("u{n}"))).await.unwrap();
    }
    assert_eq!(log(&store).await, ["u2", "a", "u3", "a"]);
    assert_eq!(store.calls(Op::Prune), 2);
}

/// `prune` is called directly, through the store with faults.
#[tokio::test]
async fn a_prune_with_an_unknown_outcome_can_be_repeated() {
    let (store, engine) = store_and_engine(Retention::LastTurns(100));
    for _ in 0..5 {
        turn(&engine, "u").await;
    }
    let incarnation = store.read(&id(), Seq::FIRST, 0).await.unwrap().revision.unwrap().incarnation();
    let (keep, derived) = (tower_chat_history::store::PruneTo::LastTurns(2), tower_chat_history::store::Derived::Keep);
    store.lose_answers(Op::Prune, 1);
    assert!(store.prune(&id(), incarnation, keep, derived).await.unwrap_err().is_retryable());
    assert_eq!(store.prune(&id(), incarnation, keep, derived).await.unwrap().removed, 0);
    assert_eq!(first_and_len(&store).await, (3, 2));
}
