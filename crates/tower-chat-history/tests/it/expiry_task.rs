//! The task that expires conversations.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_chat_history::{
    ConversationId, HistoryStoreExt as _, MemoryStore, Message,
    store::{Expiry, ExpiryRule, ExpiryTask, List as _, Prefix},
};
use tower_chat_history_test::{Fault, FaultStore, Op};

/// Stores this number of conversations.
async fn filled(conversations: usize) -> MemoryStore {
    let store = MemoryStore::new();
    for number in 0..conversations {
        let id = ConversationId::new(["acme", &number.to_string()]).unwrap();
        store.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    }
    store
}

async fn left(store: &MemoryStore) -> usize {
    store.list(&Prefix::all(), None, 1_000).await.unwrap().conversations.len()
}

/// Everything is expired at once.
fn expiry() -> Expiry {
    Expiry::new().under(Prefix::all(), ExpiryRule::Idle(Duration::ZERO))
}

#[tokio::test(start_paused = true)]
async fn a_round_takes_bounded_steps_and_the_next_one_begins_later() {
    let store = filled(25).await;
    let steps: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = Arc::clone(&steps);
    let task = ExpiryTask::new(store.clone(), expiry())
        .steps_of(10, Duration::from_secs(1))
        .every(Duration::from_secs(60))
        .on_run(move |run| seen.lock().unwrap().push(run.removed.total().conversations));
    let task = tokio::spawn(task.run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(left(&store).await, 15);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((left(&store).await, steps.lock().unwrap().iter().sum::<u64>()), (0, 25));
    let id = ConversationId::new(["late"]).unwrap();
    store.conversation(&id).import([Message::user("u"), Message::assistant("a")]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(left(&store).await, 1, "the next round has not begun");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(left(&store).await, 0);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_store_only_delays_the_round() {
    let inner = filled(5).await;
    let store = FaultStore::new(inner.clone());
    store.pass(Op::EraseIf, 2);
    store.fail(Op::EraseIf, 1, Fault::Unavailable);
    let task = tokio::spawn(ExpiryTask::new(store, expiry()).run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(left(&inner).await, 3);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(left(&inner).await, 0);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_cannot_be_erased_does_not_delay_the_others() {
    let inner = filled(5).await;
    let store = FaultStore::new(inner.clone());
    store.pass(Op::EraseIf, 1);
    store.fail(Op::EraseIf, 1, Fault::Corrupt);
    let failed: Arc<Mutex<Vec<(u64, String)>>> = Arc::default();
    let seen = Arc::clone(&failed);
    let task = ExpiryTask::new(store, expiry()).on_run(move |run| {
        seen.lock().unwrap().extend(run.first_failure.iter().map(|first| (run.failed, first.id.to_string())));
    });
    let task = tokio::spawn(task.run());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((left(&inner).await, failed.lock().unwrap().clone()), (1, vec![(1, "acme/1".into())]));
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    assert_eq!(left(&inner).await, 0, "the next round tries again");
    task.abort();
}
