//! Opens the store that a URL names.

use std::{error::Error, fmt, sync::Arc};

use tower_chat_history::{MemoryStore, store::List};
use tower_chat_history_sqlite::SqliteStore;

use super::StoreUrl;

type Opened = Result<Arc<dyn List>, OpenStoreError>;

impl StoreUrl {
    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be opened, or if the program was built without its driver.
    pub async fn open(&self) -> Opened {
        match self {
            Self::Memory => Ok(Arc::new(MemoryStore::new())),
            Self::Sqlite(path) => opened(SqliteStore::open(path).await),
            Self::Postgres(url) => postgres(url).await,
            Self::Redis(url) => redis(url).await,
            Self::RedisCluster(urls) => redis_cluster(urls).await,
        }
    }
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Opened {
    use tower_chat_history_postgres::{OpenError, PostgresOptions, PostgresStore};

    match PostgresStore::connect(url).await {
        Err(OpenError::NeedsTls) => cached(PostgresOptions::new().connect_rustls(url).await),
        store => cached(store),
    }
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> Opened {
    Err(OpenStoreError::NotBuiltIn { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Opened {
    install_crypto_provider();
    cached(tower_chat_history_redis::RedisStore::connect(url).await)
}

#[cfg(feature = "redis")]
async fn redis_cluster(urls: &[String]) -> Opened {
    install_crypto_provider();
    cached(tower_chat_history_redis::RedisStore::connect_cluster(urls).await)
}

/// Installs the provider that rustls needs for `rediss://`.
#[cfg(feature = "redis")]
fn install_crypto_provider() {
    // An error means that one is already installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &str) -> Opened {
    Err(OpenStoreError::NotBuiltIn { store: "Redis", feature: "redis" })
}

#[cfg(not(feature = "redis"))]
async fn redis_cluster(_: &[String]) -> Opened {
    redis("").await
}

/// Adds a cache to a store on a network, so that the next call in a conversation does not transfer the window again.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn cached<S: List, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> Opened {
    opened(store.map(tower_chat_history::CachedStore::new))
}

fn opened<S: List, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> Opened {
    match store {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(OpenStoreError::Failed(Box::new(error))),
    }
}

/// An error of [`StoreUrl::open`]. It never shows the URL, which may contain a password.
#[non_exhaustive]
pub enum OpenStoreError {
    /// The program was built without the driver of the store.
    NotBuiltIn {
        /// The name of the store.
        store: &'static str,
        /// The Cargo feature that adds the driver.
        feature: &'static str,
    },
    /// The driver's error.
    Failed(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for OpenStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuiltIn { store, feature } => {
                write!(f, "this program was built without {store}: build it with the feature `{feature}`")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// The same as `Display`, because a program whose `main` returns this error prints its `Debug` form.
impl fmt::Debug for OpenStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for OpenStoreError {}

#[cfg(test)]
mod tests {
    use tower_chat_history::HistoryStore as _;

    use super::*;

    async fn shown(url: &str) -> String {
        let error = url.parse::<StoreUrl>().unwrap().open().await.unwrap_err();
        format!("{error:?} {error}")
    }

    #[tokio::test]
    async fn memory_and_files_are_opened() {
        let directory = tempfile::tempdir().unwrap();
        let file = format!("sqlite:{}", directory.path().join("chat.db").display());
        for (url, system) in [("memory:", "memory"), (file.as_str(), "sqlite")] {
            let store = url.parse::<StoreUrl>().unwrap().open().await.unwrap();
            assert_eq!(store.system(), system);
        }
    }

    #[tokio::test]
    async fn errors_do_not_show_passwords() {
        // No server listens on port 1.
        for url in [
            "postgres://u:secret@127.0.0.1:1/db?connect_timeout=5",
            "postgres://u:secret@127.0.0.1:1/db?sslmode=require",
            "postgres://u:se:cret@127.0.0.1:secret/db",
            "postgres://127.0.0.1:1/db?password=secret&no_such_option=secret",
            "redis://u:secret@127.0.0.1:1",
            "rediss://u:secret@127.0.0.1:1",
            "redis://u:secret@127.0.0.1:secret",
            "redis+cluster://u:secret@127.0.0.1:1,127.0.0.1:1",
        ] {
            let shown = shown(url).await;
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[tokio::test]
    async fn a_program_without_postgres_says_so() {
        assert!(shown("postgres://localhost/db").await.contains("the feature `postgres`"));
    }

    #[cfg(not(feature = "redis"))]
    #[tokio::test]
    async fn a_program_without_redis_says_so() {
        for url in ["redis://localhost", "redis+cluster://localhost:1"] {
            assert!(shown(url).await.contains("the feature `redis`"), "{url}");
        }
    }
}
