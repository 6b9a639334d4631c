//! `FaultStore`, around a store of one list.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, CompactionVersion, ConversationId, Cuts, Exchange, ExchangeId, Expect,
    HistoryStore, Incarnation, Load, Loaded, Message, Page, Profile, Recorded, Revision, Seq, StoreError, Window,
};
use tower_chat_history_test::{Fault, FaultStore, Op};

/// A store of one conversation, with just enough of the contract for these tests.
#[derive(Debug, Default)]
struct OneList(Mutex<Vec<Recorded>>);

const INCARNATION: Incarnation = Incarnation::from_bytes([7; 16]);

#[async_trait]
impl HistoryStore for OneList {
    fn system(&self) -> &'static str {
        "memory"
    }

    async fn load(&self, _: &ConversationId, _: Load) -> Result<Loaded, StoreError> {
        let log = self.0.lock().unwrap().clone();
        Ok(Loaded::Window(Window::new(Revision::new(INCARNATION, log.len() as u64), None, log, false)))
    }

    async fn append(&self, _: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let mut log = self.0.lock().unwrap();
        let seq = Seq::new(log.len() as u64);
        log.push(Recorded::new(seq, append.exchange));
        Ok(Appended::stored(Revision::new(INCARNATION, seq.get() + 1), seq, None))
    }

    async fn compact(&self, _: &ConversationId, _: Incarnation, _: Compact) -> Result<CompactOutcome, StoreError> {
        Ok(CompactOutcome::Kept(None))
    }

    async fn read(&self, _: &ConversationId, _: Seq, _: usize) -> Result<Page, StoreError> {
        Ok(Page::absent())
    }

    async fn delete(&self, _: &ConversationId) -> Result<(), StoreError> {
        self.0.lock().unwrap().clear();
        Ok(())
    }
}

fn store() -> FaultStore<OneList> {
    FaultStore::new(OneList::default())
}

fn id() -> ConversationId {
    ConversationId::new(["acme", "1"]).unwrap()
}

fn append() -> Append {
    let messages = [Message::user("secret"), Message::assistant("b")];
    Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages))
}

fn stored(store: &FaultStore<OneList>) -> usize {
    store.get_ref().0.lock().unwrap().len()
}

fn kind<T>(result: Result<T, StoreError>) -> &'static str {
    result.map_or_else(|error| error.kind(), |_| "ok")
}

#[tokio::test]
async fn calls_reach_the_inner_store_and_are_counted() {
    let store: Arc<dyn HistoryStore> = Arc::new(store());
    store.append(&id(), append()).await.unwrap();
    assert!(matches!(store.load(&id(), Load::new()).await, Ok(Loaded::Window(window)) if window.exchanges.len() == 1));

    let store = self::store();
    store.append(&id(), append()).await.unwrap();
    store.append(&id(), append()).await.unwrap();
    store.clone().load(&id(), Load::new()).await.unwrap();
    assert_eq!(store.loaded_messages(), 4);
    assert_eq!((store.calls(Op::Append), store.calls(Op::Load), store.calls(Op::Delete)), (2, 1, 0));
    assert!(!format!("{store:?}").contains("secret"));
}

#[tokio::test]
async fn every_operation_fails_as_planned() {
    let (store, id) = (store(), id());
    for op in [Op::Load, Op::Append, Op::Compact, Op::Read, Op::Delete] {
        store.fail(op, 1, Fault::Backend);
    }
    let compact = Cuts::default().compact(Profile::default(), CompactionVersion::NONE).unwrap();
    assert_eq!(kind(store.load(&id, Load::new()).await), "backend");
    assert_eq!(kind(store.append(&id, append()).await), "backend");
    assert_eq!(kind(store.compact(&id, INCARNATION, compact).await), "backend");
    assert_eq!(kind(store.read(&id, Seq::FIRST, 1).await), "backend");
    assert_eq!(kind(store.delete(&id).await), "backend");
    assert_eq!(stored(&store), 0, "no call reached the inner store");
}

#[tokio::test]
async fn steps_run_in_order_and_can_be_removed() {
    let (store, id) = (store(), id());
    store.pass(Op::Append, 1);
    for fault in [Fault::Unavailable, Fault::Conflict, Fault::Gone, Fault::Corrupt] {
        store.fail(Op::Append, 1, fault);
    }
    let mut kinds = Vec::new();
    for _ in 0..6 {
        kinds.push(kind(store.append(&id, append()).await));
    }
    assert_eq!(kinds, ["ok", "unavailable", "conflict", "gone", "corrupt", "ok"]);

    store.fail(Op::Append, usize::MAX, Fault::Gone);
    assert_eq!(kind(store.append(&id, append()).await), "gone");
    store.mend();
    assert_eq!(kind(store.append(&id, append()).await), "ok");
}

#[tokio::test]
async fn a_call_with_a_lost_answer_is_completed() {
    let (store, id) = (store(), id());
    store.lose_answers(Op::Append, 1);
    let error = store.append(&id, append()).await.unwrap_err();
    assert!(error.is_retryable());
    assert_eq!(stored(&store), 1);
}

#[tokio::test(start_paused = true)]
async fn delays_follow_a_paused_clock() {
    let store = store();
    store.delay(Op::Load, Duration::from_secs(30));
    let start = Instant::now();
    store.load(&id(), Load::new()).await.unwrap();
    store.append(&id(), append()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn held_calls_hang_until_released() {
    let store = store();
    let spawn = || {
        let store = store.clone();
        tokio::spawn(async move { store.append(&id(), append()).await })
    };
    let hold = store.hold(Op::Append);
    let (first, second) = (spawn(), spawn());
    hold.reached(2).await;
    assert_eq!((hold.waiting(), stored(&store), store.calls(Op::Append)), (2, 0, 2));
    // A dropped call no longer waits, and does not reach the inner store.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(hold.waiting(), 1);
    hold.release();
    assert!(second.await.unwrap().is_ok());
    assert_eq!(stored(&store), 1);
    assert!(spawn().await.unwrap().is_ok(), "later calls do not hang");
}

#[tokio::test]
async fn held_answers_hang_after_the_inner_call() {
    let store = store();
    let hold = store.hold_answers(Op::Append);
    let call = tokio::spawn({
        let store = store.clone();
        async move { store.append(&id(), append()).await }
    });
    hold.reached(1).await;
    assert_eq!(stored(&store), 1);
    drop(hold);
    assert!(call.await.unwrap().is_ok());
}
