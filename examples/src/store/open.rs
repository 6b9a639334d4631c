//! Opening the store that a URL names, with the drivers that are built in.

use std::{error::Error, fmt, sync::Arc};

use tower_chat_history::{HistoryStore, MemoryStore};
use tower_chat_history_sqlite::SqliteStore;

use super::StoreUrl;

type Opened = Result<Arc<dyn HistoryStore>, OpenStoreError>;

impl StoreUrl {
    /// Opens the store.
    ///
    /// # Errors
    ///
    /// When the store cannot be opened, or its driver is not built in.
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
    bring_cryptography();
    cached(tower_chat_history_redis::RedisStore::connect(url).await)
}

#[cfg(feature = "redis")]
async fn redis_cluster(urls: &[String]) -> Opened {
    bring_cryptography();
    cached(tower_chat_history_redis::RedisStore::connect_cluster(urls).await)
}

/// `rediss://` needs it.
#[cfg(feature = "redis")]
fn bring_cryptography() {
    // An error says that it is there already.
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

/// Caches a store behind a network: a conversation's next call need not bring its window again.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn cached<S: HistoryStore, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> Opened {
    opened(store.map(tower_chat_history::CachedStore::new))
}

fn opened<S: HistoryStore, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> Opened {
    match store {
        Ok(store) => Ok(Arc::new(store)),
        Err(error) => Err(OpenStoreError::Failed(Box::new(error))),
    }
}

/// A store that was not opened. No URL is shown.
#[non_exhaustive]
pub enum OpenStoreError {
    /// The program was built without the store's driver.
    NotBuiltIn {
        /// The store.
        store: &'static str,
        /// The feature that brings the driver.
        feature: &'static str,
    },
    /// The driver says why.
    Failed(Box<dyn Error + Send + Sync>),
}

impl fmt::Display for OpenStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuiltIn { store, feature } => {
                write!(f, "this program was built without {store}: build it with the feature {feature}")
            }
            Self::Failed(error) => {
                write!(f, "{error}")?;
                let mut cause = error.source();
                while let Some(error) = cause {
                    write!(f, ": {error}")?;
                    cause = error.source();
                }
                Ok(())
            }
        }
    }
}

/// As `Display`: it is what a program shows whose `main` returns the error.
impl fmt::Debug for OpenStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for OpenStoreError {}

#[cfg(test)]
mod tests {
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
    async fn what_cannot_be_opened_is_told_without_its_password() {
        // Nobody listens on port 1.
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
        assert!(shown("postgres://localhost/db").await.contains("the feature postgres"));
    }

    #[cfg(not(feature = "redis"))]
    #[tokio::test]
    async fn a_program_without_redis_says_so() {
        for url in ["redis://localhost", "redis+cluster://localhost:1"] {
            assert!(shown(url).await.contains("the feature redis"), "{url}");
        }
    }
}
