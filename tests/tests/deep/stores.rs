//! Stores, and the addresses with which they are opened.

use tower_chat_history::{
    CachedStore, HistoryStore, MemoryStore,
    store::{Append, Expect, Load, Loaded, Seq},
};
use tower_chat_history_postgres::PostgresStore;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::SqliteStore;

use super::{
    Case, block_on,
    texts::{id, log, texts},
};

pub(crate) const CASES: &[Case] =
    cases![memory_stores_a_log, a_cache_stores_a_log, sqlite_stores_a_log, addresses_are_refused,];

fn memory_stores_a_log() {
    block_on(stores_a_log(&MemoryStore::new()));
}

fn a_cache_stores_a_log() {
    block_on(stores_a_log(&CachedStore::new(MemoryStore::new())));
}

async fn stores_a_log(store: &impl HistoryStore) {
    let (id, log) = (id(), log());
    for exchange in &log {
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
    }
    for _ in 0..2 {
        let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("there is a log") };
        // The load is limited, so the window has the end of the log.
        let end = &log[log.len() - window.exchanges.len()..];
        assert!(!end.is_empty() && window.exchanges.iter().map(|recorded| &*recorded.exchange).eq(end));
    }
    let page = store.read(&id, Seq::FIRST, 100).await.unwrap();
    assert!(
        !page.exchanges.is_empty()
            && page.exchanges.iter().map(|recorded| &*recorded.exchange).eq(&log[..page.exchanges.len()])
    );
}

fn sqlite_stores_a_log() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep.db");
        let store = SqliteStore::open(&path).await.unwrap();
        stores_a_log(&store).await;
        store.close().await.unwrap();
    });
}

fn addresses_are_refused() {
    block_on(async {
        for deep in texts() {
            for address in
                [deep.clone(), format!("redis://{deep}"), format!("postgres://{deep}"), format!("postgres://h/?{deep}")]
            {
                assert!(RedisStore::connect(&address).await.is_err());
                assert!(PostgresStore::connect(&address).await.is_err());
                assert!(SqliteStore::open(format!("/nowhere/{address}")).await.is_err());
            }
        }
    });
}
