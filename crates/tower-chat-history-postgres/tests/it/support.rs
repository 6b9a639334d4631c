//! Support that the tests of this store share.

use std::{sync::Arc, time::Duration};

use deadpool_postgres::{Manager, Pool, Runtime};
use test_servers::postgres;
use tokio_postgres::{Client, NoTls};
pub(crate) use tower_chat_history_conformance::shorthand::{
    append, conversation, exchange, log_texts as texts, say, window,
};
use tower_chat_history_core::{Compact, CompactionVersion, Profile, Seq};
use tower_chat_history_postgres::{PostgresOptions, PostgresStore};

/// Creates a database for one test.
pub(crate) async fn database() -> String {
    postgres::shared().database().await
}

/// Returns options with time limits for connections that no call reaches, also on a busy machine.
pub(crate) fn patient() -> PostgresOptions {
    PostgresOptions::new().pool_timeout(Duration::from_secs(60))
}

/// Opens a store with one connection, which calls wait for no longer than this time. To make the connection, there is
/// no time limit.
pub(crate) async fn single_with(url: &str, wait: Duration) -> PostgresStore {
    let manager = Manager::new(url.parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).wait_timeout(Some(wait)).runtime(Runtime::Tokio1);
    PostgresStore::with_pool(pool.build().unwrap()).await.unwrap()
}

/// Opens a store with one connection, so that all calls use the same one.
pub(crate) async fn single(url: &str) -> PostgresStore {
    patient().connections(1).connect(url).await.unwrap()
}

/// Opens a connection next to those of the store, as another program would.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until another session than these waits for a lock, and returns its process id. The watcher must not
/// be in a transaction, whose view would not change.
pub(crate) async fn waits_for_a_lock(watcher: &Client, but: &[i32]) -> i32 {
    let waits = "select pid from pg_stat_activity \
                 where wait_event_type = 'Lock' and datname = current_database() and pid <> all ($1)";
    loop {
        if let Some(row) = watcher.query(waits, &[&but]).await.unwrap().first() {
            return row.get(0);
        }
    }
}

/// Returns a compaction of the default profile without derived text. Its bytes are no text.
pub(crate) fn compact(replaces: CompactionVersion, window_start: u64) -> Compact {
    Compact::new(Profile::default(), replaces, Seq::new(window_start), Arc::from(&b"state \0\xff"[..]), None)
}

/// Returns the first compaction of the default profile. It has this derived text.
pub(crate) fn compact_with(derived: &str, window_start: u64) -> Compact {
    let mut compact = compact(CompactionVersion::NONE, window_start);
    compact.derived = Some(Arc::from(derived.as_bytes()));
    compact
}
