//! What the tests of this store share.

use tests::servers::postgres;
use tokio_postgres::{Client, NoTls};
use tower_chat_history_core::{
    Append, Appended, Compact, CompactionVersion, ConversationId, Cut, Exchange, ExchangeId, Expect, HistoryStore,
    Load, Loaded, Message, Profile, Seq, Window,
};
use tower_chat_history_postgres::{PostgresOptions, PostgresStore};

/// A database of its own.
pub(crate) async fn database() -> String {
    postgres::shared().database().await
}

/// A store with one connection, so that each call has the same.
pub(crate) async fn single(url: &str) -> PostgresStore {
    PostgresOptions::new().connections(1).connect(url).await.unwrap()
}

/// A connection beside the store's own, as another program would have it.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The session of another connection than these that waits for a lock, once there is one. The watcher is not in a transaction: its
/// view would stand still.
pub(crate) async fn waits_for_a_lock(watcher: &Client, but: &[i32]) -> i32 {
    let waits = "select pid from pg_stat_activity \
                 where wait_event_type = 'Lock' and datname = current_database() and pid <> all ($1)";
    loop {
        if let Some(row) = watcher.query(waits, &[&but]).await.unwrap().first() {
            return row.get(0);
        }
    }
}

pub(crate) fn conversation(name: &str) -> ConversationId {
    ConversationId::new(["test", name]).unwrap()
}

/// A question and its answer.
pub(crate) fn exchange(text: &str) -> Exchange {
    Exchange::new(ExchangeId::generate(), [Message::user(text), Message::assistant("ok")])
}

pub(crate) fn append(text: &str) -> Append {
    Append::new(Expect::AnyOrCreate, exchange(text))
}

pub(crate) async fn say(store: &PostgresStore, id: &ConversationId, text: &str) -> Appended {
    store.append(id, append(text)).await.unwrap()
}

pub(crate) async fn window(store: &PostgresStore, id: &ConversationId) -> Window {
    match store.load(id, Load::new()).await.unwrap() {
        Loaded::Window(window) => window,
        other => panic!("{other:?}"),
    }
}

/// The first user message of each exchange in the log.
pub(crate) async fn texts(store: &PostgresStore, id: &ConversationId) -> Vec<String> {
    let page = store.read(id, Seq::FIRST, usize::MAX).await.unwrap();
    assert!(!page.more);
    page.exchanges.iter().map(|recorded| recorded.exchange.messages[0].text().into_owned()).collect()
}

/// A compaction of the default profile.
pub(crate) fn compact(replaces: CompactionVersion, window_start: u64) -> Compact {
    Compact { profile: Profile::default(), replaces, cut: Cut::window_from(Seq::new(window_start)) }
}
