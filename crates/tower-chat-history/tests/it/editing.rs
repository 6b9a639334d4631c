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
async fn a_failed_fork_reports_how_much_it_copied() {
    for written in 0..4 {
        let (store, from) = filled(4).await;
        let to = id("copy");
        store.pass(Op::Append, written);
        store.fail(Op::Append, 2, Fault::Unavailable);
        let failed = store.conversation(&from).fork(Seq::new(4), &to).await.unwrap_err();
        assert!(matches!(&failed, ForkError::Write { copied, .. } if *copied == written), "{failed:?}");
        assert_eq!(failed.copied(), written);
        assert!(failed.source().is_some() && !format!("{failed:?} {failed}").contains("secret"));
        assert_eq!(log(&store, &to).await, log(&store, &from).await[..written]);
        // After `clear`, the fork succeeds.
        store.conversation(&to).clear().await.unwrap();
        assert_eq!(store.conversation(&from).fork(Seq::new(4), &to).await.unwrap(), 4);
    }
}

#[tokio::test]
async fn a_fork_survives_lost_answers() {
    let (store, from) = filled(3).await;
    let to = id("copy");
    for _ in 0..3 {
        store.lose_answers(Op::Append, 1);
        // The repeat.
        store.pass(Op::Append, 1);
    }
    assert_eq!(store.conversation(&from).fork(Seq::new(9), &to).await.unwrap(), 3);
    assert_eq!(log(&store, &to).await, log(&store, &from).await);
}

#[tokio::test]
async fn a_fork_stops_if_another_writer_appends() {
    let (store, from) = filled(4).await;
    let to = id("copy");
    store.pass(Op::Append, 2);
    store.fail(Op::Append, 1, Fault::Conflict);
    let failed = store.conversation(&from).fork(Seq::new(4), &to).await.unwrap_err();
    let right = matches!(&failed, ForkError::Write { copied: 2, source: StoreError::Conflict { .. } });
    assert!(right, "{failed:?}");
    // A conflict at the first exchange means that another conversation was created in between.
    store.fail(Op::Append, 1, Fault::Conflict);
    let failed = store.conversation(&from).fork(Seq::new(4), &id("other")).await.unwrap_err();
    assert!(matches!(failed, ForkError::Exists), "{failed:?}");
}

#[tokio::test]
async fn a_fork_of_an_unreadable_log_fails() {
    let (store, from) = filled(2).await;
    for reads in 0..2 {
        store.pass(Op::Read, reads);
        store.fail(Op::Read, 1, Fault::Backend);
        let failed = store.conversation(&from).fork(Seq::new(2), &id("copy")).await.unwrap_err();
        assert!(matches!(failed, ForkError::Read { copied: 0, .. }), "{failed:?}");
    }
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
