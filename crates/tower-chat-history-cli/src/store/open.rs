//! Opens the store that a URL names.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tower_chat_history_core::StoreError;
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

use super::{ManagedStore, StoreUrl};

/// The settings of stores that are not in their URLs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The schema in PostgreSQL.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) schema: Option<String>,
    /// The beginning of the keys in Redis.
    #[cfg_attr(not(feature = "redis"), allow(dead_code))]
    pub(crate) key_prefix: Option<String>,
    /// Conversations are imported: a file or a schema that does not exist is created. An import can be repeated, so its
    /// writes reach the disk when the file is closed.
    pub(crate) imports: bool,
}

/// An open store.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ManagedStore>,
    /// The handle that closes the file.
    file: Option<SqliteStore>,
}

impl Opened {
    /// Closes the store, so that a file has all its data in one place.
    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self.file {
            Some(file) => file.close().await,
            None => Ok(()),
        }
    }
}

impl StoreUrl {
    /// Opens the store.
    pub(crate) async fn open(&self, settings: &Settings) -> Result<Opened, OpenStoreError> {
        match self {
            Self::Sqlite(path) => sqlite(path, settings).await,
            Self::Postgres(url) => postgres(url, settings).await,
            Self::Redis(url) => redis(std::slice::from_ref(url), false, settings).await,
            Self::RedisCluster(urls) => redis(urls, true, settings).await,
        }
    }
}

async fn sqlite(path: &Path, settings: &Settings) -> Result<Opened, OpenStoreError> {
    // SQLite would create the file, and a mistyped name would then be an empty store.
    if !settings.imports && !path.exists() {
        return Err(OpenStoreError::NoFile(path.to_owned()));
    }
    let synchronous = if settings.imports { Synchronous::Normal } else { Synchronous::Full };
    let store = SqliteOptions::new().synchronous(synchronous).open(path).await.map_err(OpenStoreError::failed)?;
    Ok(Opened { store: Arc::new(store.clone()), file: Some(store) })
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, settings: &Settings) -> Result<Opened, OpenStoreError> {
    use tower_chat_history_postgres::{OpenError, PostgresOptions};

    let options = || {
        let options = PostgresOptions::new().create_schema(settings.imports);
        match &settings.schema {
            Some(schema) => options.schema(schema),
            None => options,
        }
    };
    let store = match options().connect(url).await {
        Err(OpenError::NeedsTls) => options().connect_rustls(url).await,
        store => store,
    };
    Ok(Opened { store: Arc::new(store.map_err(OpenStoreError::failed)?), file: None })
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: &Settings) -> Result<Opened, OpenStoreError> {
    Err(OpenStoreError::NotBuiltIn { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(feature = "redis")]
async fn redis(urls: &[String], is_cluster: bool, settings: &Settings) -> Result<Opened, OpenStoreError> {
    use tower_chat_history_redis::RedisOptions;

    install_crypto_provider();
    let options = match &settings.key_prefix {
        Some(prefix) => RedisOptions::new().prefix(prefix),
        None => RedisOptions::new(),
    };
    let store = match urls {
        [url] if !is_cluster => options.connect(url.as_str()).await,
        urls => options.connect_cluster(urls).await,
    };
    Ok(Opened { store: Arc::new(store.map_err(OpenStoreError::failed)?), file: None })
}

/// Installs the provider that rustls needs for `rediss://`.
#[cfg(feature = "redis")]
pub(crate) fn install_crypto_provider() {
    // An error means that one is already installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &[String], _: bool, _: &Settings) -> Result<Opened, OpenStoreError> {
    Err(OpenStoreError::NotBuiltIn { store: "Redis", feature: "redis" })
}

/// An error of [`StoreUrl::open`]. It never shows the URL, which may contain a password.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenStoreError {
    /// The file does not exist.
    #[error("there is no file {}", .0.display())]
    NoFile(PathBuf),
    /// The program was built without the driver of the store.
    #[allow(dead_code)] // It is constructed only without the driver.
    #[error("this program was built without {store}: build it with the feature `{feature}`")]
    NotBuiltIn { store: &'static str, feature: &'static str },
    /// The driver's error.
    #[error("{0}")]
    Failed(Shown),
}

impl OpenStoreError {
    fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Shown(Box::new(error)))
    }
}

/// An error with its causes.
#[derive(Debug)]
pub(crate) struct Shown(Box<dyn Error + Send + Sync>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
