//! Opens the store that the parent names.

use std::{path::Path, sync::Arc, time::Duration};

use tests::{FullStore, MASTER_KEY, patient};
use tower_chat_history::{
    BoxError,
    encryption::{DirectoryVault, EncryptedStore, KeyRing, Keys},
};
use tower_chat_history_postgres::PostgresOptions;
use tower_chat_history_redis::RedisOptions;
use tower_chat_history_sqlite::SqliteOptions;

use crate::PATIENCE;

/// The connections of one process. They are few, so that several calls wait for a connection.
const CONNECTIONS: usize = 2;

/// The time limits of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// The default ones. A call that exceeds one is repeated.
    Default,
    /// Those that a busy machine does not exceed, because no call may fail.
    Patient,
}

impl Limits {
    fn sqlite(self) -> SqliteOptions {
        match self {
            Self::Default => SqliteOptions::new(),
            Self::Patient => patient::sqlite(),
        }
    }

    fn postgres(self) -> PostgresOptions {
        match self {
            Self::Default => PostgresOptions::new(),
            Self::Patient => patient::postgres(),
        }
    }

    fn redis(self) -> RedisOptions {
        match self {
            Self::Default => RedisOptions::new(),
            Self::Patient => patient::redis(),
        }
    }
}

/// The number of parts of an id that have a data key of their own. With the ids of people, these are the parts of one
/// person. A chat has a key of its own.
const PARTS: usize = 3;

/// A store of any kind.
pub(crate) type Store = Arc<dyn FullStore>;

/// Returns the URL of an encrypted store, whose keys are in a directory.
pub(crate) fn encrypted(vault: &Path, url: &str) -> String {
    format!("{ENCRYPTED}{}|{url}", vault.display())
}

const ENCRYPTED: &str = "encrypted:";

/// Returns the keys that are in a directory. They stay in memory for a short time only, so that processes soon use keys
/// that another one has added.
pub(crate) fn keys(vault: &Path) -> Result<Keys, BoxError> {
    let keys = Keys::new(KeyRing::parse(MASTER_KEY)?, DirectoryVault::open(vault)?, PARTS);
    Ok(keys.with_lifetime(Duration::from_millis(50)))
}

/// Opens `sqlite:PATH`, `postgres://…`, `redis://…`, `unix://…` (Redis), `redis+cluster:URL,URL`, or one of them
/// [`encrypted`]. A server may be down for a short time, so this tries again.
///
/// # Errors
///
/// Fails if the store cannot be opened within [`PATIENCE`].
pub(crate) async fn open(url: &str, limits: Limits) -> Result<Store, BoxError> {
    let began = std::time::Instant::now();
    loop {
        match open_once(url, limits).await {
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            opened => return opened,
        }
    }
}

async fn open_once(url: &str, limits: Limits) -> Result<Store, BoxError> {
    match url.strip_prefix(ENCRYPTED).and_then(|rest| rest.split_once('|')) {
        Some((vault, inner)) => {
            let keys = keys(Path::new(vault))?;
            Ok(Arc::new(EncryptedStore::new(open_plain(inner, limits).await?, keys)))
        }
        None => open_plain(url, limits).await,
    }
}

async fn open_plain(url: &str, limits: Limits) -> Result<Store, BoxError> {
    let (scheme, rest) = url.split_once(':').ok_or("not a URL")?;
    Ok(match scheme {
        "sqlite" => Arc::new(limits.sqlite().open(rest).await?),
        "postgres" => Arc::new(limits.postgres().connections(CONNECTIONS).connect(url).await?),
        "redis" | "unix" => Arc::new(limits.redis().connect(url).await?),
        "redis+cluster" => Arc::new(limits.redis().connect_cluster(rest.split(',')).await?),
        _ => return Err("the URL has an unknown scheme".into()),
    })
}
