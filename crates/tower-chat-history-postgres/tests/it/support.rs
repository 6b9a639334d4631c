//! What the tests of this store share.

use test_servers::postgres;
use tokio_postgres::{Client, NoTls};
pub(crate) use tower_chat_history_core::testing::shorthand::{
    append, conversation, exchange, log_texts as texts, say, window,
};
use tower_chat_history_core::{Compact, CompactionVersion, Cut, Profile, Seq};
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

/// A compaction of the default profile.
pub(crate) fn compact(replaces: CompactionVersion, window_start: u64) -> Compact {
    Compact { profile: Profile::default(), replaces, cut: Cut::window_from(Seq::new(window_start)) }
}
