//! Stores by URL, for the command line.

use std::{error::Error, ffi::OsStr, fmt, path::PathBuf, str::FromStr, sync::Arc};

use clap::{
    Arg, Command,
    builder::{TypedValueParser, ValueParserFactory},
    error::ErrorKind,
};
use tower_chat_history::{MemoryStore, store::List};
use tower_chat_history_sqlite::SqliteStore;

/// A store: `memory:`, `sqlite:PATH`, `postgres://…`, `redis://…` or `redis+cluster://host:port,host:port`.
///
/// - `postgresql://` is the same as `postgres://`; `redis+unix:///path` is Redis at a Unix socket.
/// - `rediss://` and `rediss+cluster://` use TLS, and so does a `postgres://` URL with `sslmode=require`.
/// - In the URL of a cluster, user and password are written before the first node. They are used for all nodes.
///
/// `Debug` shows only the kind of store, because a URL may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// The memory of this process.
    Memory,
    /// An SQLite file.
    Sqlite(PathBuf),
    /// PostgreSQL at this URL.
    Postgres(String),
    /// Redis or Valkey at this URL.
    Redis(String),
    /// A Redis Cluster. These are the URLs of some of its nodes.
    RedisCluster(Vec<String>),
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = url.split_once(':').ok_or(StoreUrlError)?;
        let address = rest.strip_prefix("//").filter(|address| !address.is_empty());
        match (scheme, address) {
            ("memory", None) if rest.is_empty() => Ok(Self::Memory),
            ("sqlite", _) if !rest.is_empty() => Ok(Self::Sqlite(rest.into())),
            ("postgres" | "postgresql", Some(_)) => Ok(Self::Postgres(url.to_owned())),
            ("redis" | "rediss" | "redis+unix", Some(_)) => Ok(Self::Redis(url.to_owned())),
            ("redis+cluster", Some(address)) => nodes("redis", address),
            ("rediss+cluster", Some(address)) => nodes("rediss", address),
            _ => Err(StoreUrlError),
        }
    }
}

fn nodes(scheme: &str, address: &str) -> Result<StoreUrl, StoreUrlError> {
    // Split at the last `@`, because a password may contain one, and a host name cannot.
    let at = address.rfind('@').map_or(0, |at| at + 1);
    let (user, nodes) = address.split_at(at);
    let nodes: Vec<&str> = nodes.trim_end_matches('/').split(',').collect();

    if nodes.iter().any(|node| node.is_empty() || node.contains('/')) {
        return Err(StoreUrlError);
    }

    Ok(StoreUrl::RedisCluster(nodes.iter().map(|node| format!("{scheme}://{user}{node}/")).collect()))
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres"),
            Self::Redis(_) => f.write_str("Redis"),
            Self::RedisCluster(nodes) => write!(f, "RedisCluster({} nodes)", nodes.len()),
        }
    }
}

/// An invalid store URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreUrlError;

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected memory:, sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port")
    }
}

impl Error for StoreUrlError {}

/// Parses a [`StoreUrl`] on the command line. clap's own parser would print an invalid value, including its password.
#[derive(Clone, Copy, Debug)]
pub struct StoreUrlParser;

impl ValueParserFactory for StoreUrl {
    type Parser = StoreUrlParser;

    fn value_parser() -> StoreUrlParser {
        StoreUrlParser
    }
}

impl TypedValueParser for StoreUrlParser {
    type Value = StoreUrl;

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<StoreUrl, clap::Error> {
        let url = value.to_str().ok_or(StoreUrlError).and_then(str::parse);
        url.map_err(|error| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("--store: {error}\n")).with_cmd(command)
        })
    }
}

type OpenResult = Result<Arc<dyn List>, OpenStoreError>;

impl StoreUrl {
    /// Opens the store.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be opened, or if the program was built without its driver.
    pub async fn open(&self) -> OpenResult {
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
async fn postgres(url: &str) -> OpenResult {
    use tower_chat_history_postgres::{OpenError, PostgresOptions, PostgresStore};

    match PostgresStore::connect(url).await {
        Err(OpenError::NeedsTls) => cached(PostgresOptions::new().connect_rustls(url).await),
        store => cached(store),
    }
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> OpenResult {
    Err(OpenStoreError::NotBuiltIn { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> OpenResult {
    install_crypto_provider();
    cached(tower_chat_history_redis::RedisStore::connect(url).await)
}

#[cfg(feature = "redis")]
async fn redis_cluster(urls: &[String]) -> OpenResult {
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
async fn redis(_: &str) -> OpenResult {
    Err(OpenStoreError::NotBuiltIn { store: "Redis", feature: "redis" })
}

#[cfg(not(feature = "redis"))]
async fn redis_cluster(_: &[String]) -> OpenResult {
    redis("").await
}

/// Adds a cache to a store on a network, so that the next call in a conversation does not transfer the window again.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn cached<S: List, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> OpenResult {
    opened(store.map(tower_chat_history::CachedStore::new))
}

fn opened<S: List, E: Error + Send + Sync + 'static>(store: Result<S, E>) -> OpenResult {
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

    fn cluster(urls: &[&str]) -> StoreUrl {
        StoreUrl::RedisCluster(urls.iter().map(|&url| url.into()).collect())
    }

    async fn shown(url: &str) -> String {
        let error = url.parse::<StoreUrl>().unwrap().open().await.unwrap_err();
        format!("{error:?} {error}")
    }

    #[test]
    fn urls_name_stores() {
        assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
        assert_eq!("sqlite:a/b.db".parse(), Ok(StoreUrl::Sqlite("a/b.db".into())));
        assert_eq!("sqlite:/a/b.db".parse(), Ok(StoreUrl::Sqlite("/a/b.db".into())));
        for url in ["postgres://localhost/chat", "postgresql:///chat?host=%2Ftmp"] {
            assert_eq!(url.parse(), Ok(StoreUrl::Postgres(url.into())));
        }
        for url in ["redis://localhost", "rediss://u:p@redis.internal:6380/2", "redis+unix:///run/redis.sock"] {
            assert_eq!(url.parse(), Ok(StoreUrl::Redis(url.into())));
        }
        let wrong =
            ["", "memory", "memory:x", "memory://", "sqlite:", "postgres:", "postgres:x", "redis://", "mysql://x"];
        for wrong in wrong {
            assert_eq!(wrong.parse::<StoreUrl>(), Err(StoreUrlError), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_url_lists_some_of_its_nodes() {
        assert_eq!("redis+cluster://a:1,b:2".parse(), Ok(cluster(&["redis://a:1/", "redis://b:2/"])));
        assert_eq!("redis+cluster://a:1/".parse(), Ok(cluster(&["redis://a:1/"])));
        let with_user = "rediss+cluster://u:p@x@a:1,b:2".parse();
        assert_eq!(with_user, Ok(cluster(&["rediss://u:p@x@a:1/", "rediss://u:p@x@b:2/"])));
        for wrong in ["redis+cluster://", "redis+cluster://a:1,", "redis+cluster://a:1,,b:2", "redis+cluster://a/1,b"] {
            assert_eq!(wrong.parse::<StoreUrl>(), Err(StoreUrlError), "{wrong}");
        }
    }

    #[test]
    fn no_password_is_shown() {
        let urls = ["postgres://u:secret@h/db", "rediss://u:secret@h", "redis+cluster://u:secret@a:1,b:2"];
        for url in urls {
            assert!(!format!("{:?}", url.parse::<StoreUrl>()).contains("secret"), "{url}");
        }
        let command = Command::new("chat").arg(Arg::new("store").long("store").value_parser(StoreUrl::value_parser()));
        for wrong in ["postgres:u:secret@h", "redsi://u:secret@h"] {
            let error = command.clone().try_get_matches_from(["chat", "--store", wrong]).unwrap_err();
            let shown = format!("{error}{error:?}");
            assert!(shown.contains("expected memory:") && !shown.contains("secret"), "{shown}");
        }
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
