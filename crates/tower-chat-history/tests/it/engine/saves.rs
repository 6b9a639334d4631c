//! Saves: the callers that drive them, and waits for their end.

use std::{thread, time::Duration};

use futures_util::FutureExt as _;
use tokio::runtime::Builder;
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower_chat_history::{
    Engine, HistoryError, HistoryOptions, HistoryStoreExt as _, MemoryStore, Message, Reply, StoreError, TurnInput,
    engine::ToolResults, error::StoreResultsError,
};
use tower_chat_history_test::{Fault, Op};

use super::support::{ask, fault_store, id, log, texts, unary};

#[tokio::test]
async fn a_commit_that_is_never_polled_is_stored() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    let begin = || engine.begin(TurnInput::new(id(), [Message::user("u")]));
    drop(begin().await.unwrap().commit(Reply::new(Message::assistant("a"))));
    drop(begin().await.unwrap().commit(Reply::new(Message::assistant("b"))));
    engine.drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log(&store).await, ["u", "a", "u", "b"]);
}

/// A caller that waits for pending saves before it edits a conversation finds the reply of a call whose caller
/// has left.
#[tokio::test]
async fn saves_can_be_finished_before_a_conversation_is_edited() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    for text in ["u0", "u1"] {
        let turn = engine.begin(TurnInput::new(id(), [Message::user(text)])).await.unwrap();
        drop(turn.commit(Reply::new(Message::assistant("a"))));
    }
    assert_eq!(log(&store).await, ["u0", "a"], "the last save is pending");
    engine.saved(&id()).await;
    let conversation = id();
    let last = store.conversation(&conversation).take_last().await.unwrap().unwrap();
    assert_eq!(texts(&last.exchange.messages), ["u1", "a"]);
}

#[tokio::test]
async fn a_failed_commit_carries_the_reply() {
    let store = fault_store();
    store.fail(Op::Append, 1, Fault::Backend);
    let turn = Engine::new(store).begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    let failed = turn.commit(Reply::new(Message::assistant("a"))).await.unwrap_err();
    assert_eq!(failed.into_response().messages, [Message::assistant("a")]);
}

/// In a busy conversation, a turn does not wait for saves that begin after it.
#[tokio::test]
async fn a_turn_waits_only_for_earlier_saves() {
    let store = fault_store();
    let engine = Engine::new(store.clone());
    let begin = || engine.begin(TurnInput::new(id(), [Message::user("u")]));
    let (first, later) = (begin().await.unwrap(), begin().await.unwrap());
    let held = store.hold(Op::Append);
    let mut first = task::spawn(first.commit(Reply::new(Message::assistant("a"))));
    assert!(first.poll().is_pending());
    let mut next = task::spawn(begin());
    assert!(next.poll().is_pending());
    held.release();
    let held = store.hold(Op::Append);
    let mut later = task::spawn(later.commit(Reply::new(Message::assistant("b"))));
    assert!(first.poll().is_ready());
    assert!(later.poll().is_pending());
    assert!(next.poll().is_ready());
    held.release();
    assert!(later.poll().is_ready());
}

/// The caller leaves on a thread without a runtime. The save goes on in the runtime in which the turn began.
#[tokio::test]
async fn a_commit_that_is_dropped_outside_of_the_runtime_is_stored() {
    let store = MemoryStore::new();
    let engine = Engine::new(store.clone());
    let turn = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    thread::spawn(|| drop(turn.commit(Reply::new(Message::assistant("a"))))).join().unwrap();
    assert_eq!(engine.pending_saves(), 1);
    engine.drain(Duration::from_secs(5)).await.unwrap();
    assert_eq!(log(&store).await, ["u", "a"]);
}

/// The runtime ends while callers are in the middle of their calls. The engine is drained before.
#[test]
fn a_drain_before_the_shutdown_finishes_the_saves_of_callers_who_have_left() {
    let store = fault_store();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let held = store.hold(Op::Append);
    let engine = runtime.block_on(async {
        let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new());
        assert_ready_ok!(chat.poll_ready());
        let mut call = task::spawn(chat.call(ask("u")));
        assert_pending!(call.poll());
        llm.next_request().await.unwrap().1.send_response(Message::assistant("a"));
        assert_pending!(call.poll());
        let engine = chat.get_ref().engine().clone();
        assert_eq!(engine.pending_saves(), 1);
        drop(call);
        held.release();
        engine.drain(Duration::from_secs(5)).await.unwrap();
        engine
    });
    drop(runtime);
    assert_eq!(engine.pending_saves(), 0);
    assert_eq!(tokio_test::block_on(log(&store)), ["u", "a"]);
}

/// An engine can be created and used again in another runtime. Without a runtime, its calls fail.
#[test]
fn a_call_outside_of_a_runtime_is_an_error() {
    let engine = Engine::new(MemoryStore::new());
    let begun = engine.begin(TurnInput::new(id(), [Message::user("u")])).now_or_never().unwrap();
    assert!(matches!(begun, Err(HistoryError::Load(StoreError::Backend { .. }))), "{begun:?}");
    let results = ToolResults::new(id(), [Message::tool("x", "r")]);
    let stored = engine.store_results(results).now_or_never().unwrap();
    assert!(matches!(stored, Err(StoreResultsError::History(HistoryError::Load(_)))), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn drain_reports_pending_saves() {
    let store = fault_store();
    let (mut chat, mut llm) = unary(store.clone(), HistoryOptions::new().store_timeout(None));
    let _held = store.hold(Op::Append);
    assert_ready_ok!(chat.poll_ready());
    let mut call = task::spawn(chat.call(ask("u")));
    assert_pending!(call.poll());
    llm.next_request().await.unwrap().1.send_response(Message::assistant("a"));
    assert_pending!(call.poll());
    let error = chat.get_ref().engine().drain(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((error.saves, error.streams), (1, 0));
}
