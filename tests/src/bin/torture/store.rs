//! Opens the store that the parent names.

use std::{sync::Arc, time::Duration};

use tests::FullStore;
use tower_chat_history::BoxError;
use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisStore;
use tower_chat_history_sqlite::SqliteStore;

use crate::PATIENCE;

/// The connections of one process. They are few, so that several calls wait for a connection.
const CONNECTIONS: usize = 2;

/// A store of any kind.
pub(crate) type Store = Arc<dyn FullStore>;

/// Opens `sqlite:PATH`, `postgres://…`, `redis://…`, `unix://…` (Redis) or `redis+cluster:URL,URL`. A server
/// may be down for a short time, so this tries again.
///
/// # Errors
///
/// Fails if the store cannot be opened within [`PATIENCE`].
pub(crate) async fn open(url: &str) -> Result<Store, BoxError> {
    let began = std::time::Instant::now();
    loop {
        match open_once(url).await {
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            opened => return opened,
        }
    }
}

async fn open_once(url: &str) -> Result<Store, BoxError> {
    let (scheme, rest) = url.split_once(':').ok_or("not a URL")?;
    Ok(match scheme {
        "sqlite" => Arc::new(SqliteStore::open(rest).await?),
        "postgres" => Arc::new(PostgresOptions::new().connections(CONNECTIONS).connect(url).await?),
        "redis" | "unix" => Arc::new(RedisStore::connect(url).await?),
        "redis+cluster" => Arc::new(RedisStore::connect_cluster(rest.split(',')).await?),
        _ => return Err("the URL has an unknown scheme".into()),
    })
}
