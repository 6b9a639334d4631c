//! Options of stores whose time limits are longer than a busy machine stalls a thread or a server. The default limits
//! are a few seconds, and half a second for a node of a Redis Cluster.

use std::time::Duration;

use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisOptions;
use tower_chat_history_sqlite::SqliteOptions;

const PATIENCE: Duration = Duration::from_secs(60);

/// Returns options of an SQLite store.
#[must_use]
pub fn sqlite() -> SqliteOptions {
    SqliteOptions::new().busy_timeout(PATIENCE)
}

/// Returns options of a PostgreSQL store.
#[must_use]
pub fn postgres() -> PostgresOptions {
    PostgresOptions::new().pool_timeout(PATIENCE)
}

/// Returns options of a Redis store.
#[must_use]
pub fn redis() -> RedisOptions {
    RedisOptions::new().response_timeout(PATIENCE).connection_timeout(PATIENCE).retry_for(PATIENCE)
}
