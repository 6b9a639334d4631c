//! Expiries by several processes.

use std::time::Duration;

use tests::{Storage, over_every_store};
use tower_chat_history::{
    HistoryStore as _, Message,
    store::{Append, Exchange, Expect, Expiry, ExpiryRule, Prefix, Timestamp},
};
use tower_chat_history_test::Op;

use super::world::{prefix, read_all, store};

over_every_store! {
    #[tokio::test]
    replicas_expire_each_idle_conversation_once,
    an_append_keeps_the_conversation,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NOW: Timestamp = Timestamp::from_unix_millis(1_000 * 24 * 60 * 60 * 1_000);

fn days_ago(days: u64) -> Timestamp {
    Timestamp::from_unix_millis(NOW.as_unix_millis() - days * 24 * 60 * 60 * 1_000)
}

async fn replicas_expire_each_idle_conversation_once(storage: Storage) {
    let root = storage.conversation();
    for number in 0..60_u64 {
        let id = format!("{root}/{number}").parse().unwrap();
        store(&storage, &id, "said", days_ago(number)).await;
    }
    let under = Prefix::from(&root);
    let legal = prefix(&format!("{root}/59"));
    let expiry = Expiry::new().under(under.clone(), ExpiryRule::Idle(30 * DAY)).under(legal, ExpiryRule::Never);
    let replicas = [storage.replica().await, storage.replica().await, storage.replica().await];
    let runs = replicas.iter().map(|replica| expiry.run_once(&replica.store, NOW, None, 1_000));
    let runs = futures_util::future::try_join_all(runs).await.unwrap();
    let expired: u64 = runs.iter().map(|run| run.removed.total().conversations).sum();
    assert_eq!(expired, 29, "conversations of 30 to 58 days");
    assert_eq!(read_all(&storage, &under).await.len(), 31);
}

async fn an_append_keeps_the_conversation(storage: Storage) {
    let root = storage.conversation();
    let id = format!("{root}/1").parse().unwrap();
    store(&storage, &id, "said", days_ago(40)).await;
    let expiry = Expiry::new().under(Prefix::from(&root), ExpiryRule::Idle(30 * DAY));
    // The expiry has listed the conversation, and waits before it erases it.
    let held = storage.store.hold(Op::EraseIf);
    let replica = storage.replica().await;
    let (run, ()) = tokio::join!(expiry.run_once(&storage.store, NOW, None, 1_000), async {
        held.reached(1).await;
        let exchange = Exchange::new("late".parse().unwrap(), [Message::user("new")]);
        let append = Append::new(Expect::AnyOrCreate, exchange);
        replica.store.append(&id, append).await.unwrap();
        held.release();
    });
    let run = run.unwrap();
    assert_eq!((run.due, run.removed.total().conversations), (1, 0));
    assert_eq!(read_all(&storage, &Prefix::from(&root)).await.len(), 1);
}
