//! Edits of a conversation in a store that fails.

use std::error::Error;

use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt, MemoryStore, Message, StoreError,
    store::{Append, Expect, ForkError, Recorded, Seq},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

fn id(name: &str) -> ConversationId {
    ConversationId::new(["editing", name]).unwrap()
}

fn turn() -> Exchange {
    Exchange::new(ExchangeId::generate(), [Message::user("secret"), Message::assistant("re")])
}

/// Returns a store with a log of this many exchanges.
async fn filled(count: usize) -> (FaultStore<MemoryStore>, ConversationId) {
    let (store, id) = (FaultStore::new(MemoryStore::new()), id("log"));
    for _ in 0..count {
        store.append(&id, Append::new(Expect::AnyOrCreate, turn())).await.unwrap();
    }
    (store, id)
}

async fn log(store: &FaultStore<MemoryStore>, id: &ConversationId) -> Vec<Recorded> {
    store.conversation(id).exchanges().await.unwrap()
}

#[tokio::test]
async fn a_fork_is_repeated_once_if_its_outcome_is_unknown() {
    let (store, from) = filled(4).await;
    for (name, lost) in [("failed", false), ("lost", true)] {
        if lost {
            store.lose_answers(Op::Fork, 1);
        } else {
            store.fail(Op::Fork, 1, Fault::Unavailable);
        }
        let before = store.calls(Op::Fork);
        assert_eq!(store.conversation(&from).fork(Seq::new(3), &id(name)).await.unwrap(), 3);
        assert_eq!(store.calls(Op::Fork), before + 2);
        assert_eq!(log(&store, &id(name)).await, log(&store, &from).await[..3]);
    }

    store.fail(Op::Fork, 2, Fault::Unavailable);
    let failed = store.conversation(&from).fork(Seq::new(4), &id("copy")).await.unwrap_err();
    assert!(matches!(&failed, ForkError::Store(error) if error.is_retryable()), "{failed:?}");
    assert!(failed.source().is_some() && !format!("{failed:?} {failed}").contains("secret"));
    assert!(log(&store, &id("copy")).await.is_empty());
    assert_eq!(store.conversation(&from).fork(Seq::new(4), &id("copy")).await.unwrap(), 4);
}

#[tokio::test]
async fn a_conversation_that_begins_in_between_is_not_replaced_by_a_fork() {
    let (store, from) = filled(2).await;
    let copy = id("copy");
    let hold = store.hold(Op::Fork);
    let forking = async { store.conversation(&from).fork(Seq::new(2), &copy).await };
    let appending = async {
        hold.reached(1).await;
        store.append(&copy, Append::new(Expect::Absent, turn())).await.unwrap();
        hold.release();
    };
    let (failed, ()) = futures_util::future::join(forking, appending).await;
    assert!(matches!(failed, Err(ForkError::Exists)), "{failed:?}");
    assert_eq!(log(&store, &copy).await.len(), 1);
}

#[tokio::test]
async fn a_log_or_a_copy_that_is_deleted_in_between_is_not_forked() {
    for deleted in ["log", "copy"] {
        let (store, from) = filled(2).await;
        let hold = store.hold(Op::Fork);
        let copy = id("copy");
        let forking = async { store.conversation(&from).fork(Seq::new(2), &copy).await };
        let deleting = async {
            hold.reached(1).await;
            store.delete(&id(deleted)).await.unwrap();
            hold.release();
        };
        let (failed, ()) = futures_util::future::join(forking, deleting).await;
        assert!(matches!(failed, Err(ForkError::Store(StoreError::Gone))), "{failed:?}");
        assert!(log(&store, &copy).await.is_empty());
    }
}

#[tokio::test]
async fn a_fork_of_an_unreadable_log_fails() {
    let (store, from) = filled(2).await;
    for loads in 0..2 {
        store.pass(Op::Load, loads);
        store.fail(Op::Load, 1, Fault::Backend);
        let failed = store.conversation(&from).fork(Seq::new(2), &id("copy")).await.unwrap_err();
        assert!(matches!(failed, ForkError::Store(StoreError::Backend { .. })), "{failed:?}");
    }
    assert_eq!(store.calls(Op::Fork), 0);
    assert!(log(&store, &id("copy")).await.is_empty());
}

#[tokio::test]
async fn a_truncation_is_not_repeated() {
    let (store, id) = filled(3).await;
    let before = log(&store, &id).await;
    store.fail(Op::Truncate, 1, Fault::Unavailable);
    assert!(store.conversation(&id).take_last().await.unwrap_err().is_retryable());
    assert_eq!(log(&store, &id).await, before);
    // The outcome is unknown, so the handle does not repeat the call: a repeat could remove the exchange
    // before.
    store.lose_answers(Op::Truncate, 1);
    assert!(store.conversation(&id).take_last().await.unwrap_err().is_retryable());
    assert_eq!(store.calls(Op::Truncate), 2);
    assert_eq!(log(&store, &id).await, before[..2]);
}

#[tokio::test]
async fn a_log_that_changes_in_between_is_not_truncated() {
    let (store, id) = filled(2).await;
    let hold = store.hold(Op::Truncate);
    let taking = async { store.conversation(&id).take_last().await };
    let appending = async {
        store.append(&id, Append::new(Expect::AnyOrCreate, turn())).await.unwrap();
        hold.release();
    };
    let (taken, ()) = futures_util::future::join(taking, appending).await;
    assert!(matches!(taken, Err(StoreError::Conflict { .. })), "{taken:?}");
    assert_eq!(log(&store, &id).await.len(), 3);
}
