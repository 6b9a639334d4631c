//! The store that the command line names.

use std::{
    error::Error,
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use clap::{
    Arg, Command,
    builder::{TypedValueParser, ValueParserFactory},
    error::ErrorKind,
};
use tower_chat_history_core::{Erase, Prune, StoreError};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

/// The endings of the names of SQLite's files: the database, and the files next to it.
const SQLITE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// A store: `sqlite:PATH`, `postgres://…`, `redis://…` or `redis+cluster://host:port,host:port`.
///
/// - `postgresql://` is the same as `postgres://`; `redis+unix:///path` is Redis at a Unix socket.
/// - `rediss://` and `rediss+cluster://` use TLS, and so does a `postgres://` URL with `sslmode=require`.
/// - In the URL of a cluster, user and password are written before the first node. They are used for all nodes.
///
/// `Debug` shows only the kind of store, because a URL may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
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

impl StoreUrl {
    /// Returns `true` if this is a file of the store, which no command may write to by itself.
    pub(crate) fn has_file(&self, path: &Path) -> bool {
        let Self::Sqlite(database) = self else { return false };
        SQLITE_FILES.iter().any(|ending| {
            let mut file = database.clone().into_os_string();
            file.push(ending);
            is_same_file(Path::new(&file), path)
        })
    }

    /// Returns the place of the store for a receipt: a path, or hosts with a database. User, password and settings are
    /// left out.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Sqlite(path) => path.display().to_string(),
            Self::Postgres(url) | Self::Redis(url) => host(url).to_owned(),
            Self::RedisCluster(nodes) => nodes.iter().map(|node| host(node)).collect::<Vec<_>>().join(","),
        }
    }
}

/// Returns what is between the user with the password and the settings of a URL. It is empty if a `@` in the settings,
/// or a `?` in the password, makes this uncertain.
fn host(url: &str) -> &str {
    let address = url.split_once("//").map_or(url, |(_, address)| address);
    let (address, settings) = address.split_once('?').unwrap_or((address, ""));
    if settings.contains('@') {
        return "";
    }
    address.rsplit_once('@').map_or(address, |(_, address)| address)
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => f.debug_tuple("Sqlite").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres"),
            Self::Redis(_) => f.write_str("Redis"),
            Self::RedisCluster(nodes) => write!(f, "RedisCluster({} nodes)", nodes.len()),
        }
    }
}

/// An invalid store URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreUrlError;

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected sqlite:PATH, postgres://…, redis://… or redis+cluster://host:port,host:port")
    }
}

impl Error for StoreUrlError {}

/// Parses a [`StoreUrl`] on the command line. clap's own parser would print an invalid value, including its password.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreUrlParser;

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

/// Returns `true` if two paths name the same file, also by symbolic links, and by hard links of a regular file. A file
/// need not exist.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let is_same_path = resolved(one).is_some_and(|one| resolved(other) == Some(one));
    // The files are opened to compare them. Opening a named pipe can block until another program opens it, and closing
    // it again can end that program's transfer.
    is_same_path || is_file(one) && is_file(other) && same_file::is_same_file(one, other).unwrap_or(false)
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Returns the path without links, or `None` if its directory does not exist. The file need not exist.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = fs::canonicalize(path) {
        return Some(path);
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    Some(fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?.join(path.file_name()?))
}

/// A store that this program can open. All of them list, erase and prune.
pub(crate) trait ManagedStore: Erase + Prune {}

impl<S: Erase + Prune> ManagedStore for S {}

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
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn ManagedStore>,
    /// The handle that closes the file.
    file: Option<SqliteStore>,
}

impl OpenStore {
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
    pub(crate) async fn open(&self, settings: &Settings) -> Result<OpenStore, OpenStoreError> {
        match self {
            Self::Sqlite(path) => sqlite(path, settings).await,
            Self::Postgres(url) => postgres(url, settings).await,
            Self::Redis(url) => redis(std::slice::from_ref(url), false, settings).await,
            Self::RedisCluster(urls) => redis(urls, true, settings).await,
        }
    }
}

async fn sqlite(path: &Path, settings: &Settings) -> Result<OpenStore, OpenStoreError> {
    // SQLite would create the file, and a mistyped name would then be an empty store.
    if !settings.imports && !path.exists() {
        return Err(OpenStoreError::NoFile(path.to_owned()));
    }
    let synchronous = if settings.imports { Synchronous::Normal } else { Synchronous::Full };
    let store = SqliteOptions::new().synchronous(synchronous).open(path).await.map_err(OpenStoreError::failed)?;
    Ok(OpenStore { store: Arc::new(store.clone()), file: Some(store) })
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, settings: &Settings) -> Result<OpenStore, OpenStoreError> {
    use tower_chat_history_postgres::{OpenError, PostgresOptions};

    let mut options = PostgresOptions::new().create_schema(settings.imports);
    if let Some(schema) = &settings.schema {
        options = options.schema(schema);
    }

    let store = match options.clone().connect(url).await {
        Err(OpenError::NeedsTls) => options.connect_rustls(url).await,
        store => store,
    };
    Ok(OpenStore { store: Arc::new(store.map_err(OpenStoreError::failed)?), file: None })
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: &Settings) -> Result<OpenStore, OpenStoreError> {
    Err(OpenStoreError::NotBuiltIn { store: "PostgreSQL", feature: "postgres" })
}

#[cfg(feature = "redis")]
async fn redis(urls: &[String], is_cluster: bool, settings: &Settings) -> Result<OpenStore, OpenStoreError> {
    use tower_chat_history_redis::RedisOptions;

    install_crypto_provider();
    let mut options = RedisOptions::new();
    if let Some(prefix) = &settings.key_prefix {
        options = options.prefix(prefix);
    }

    let store = match urls {
        [url] if !is_cluster => options.connect(url.as_str()).await,
        urls => options.connect_cluster(urls).await,
    };
    Ok(OpenStore { store: Arc::new(store.map_err(OpenStoreError::failed)?), file: None })
}

/// Installs the provider that rustls needs for `rediss://`.
#[cfg(feature = "redis")]
pub(crate) fn install_crypto_provider() {
    // An error means that one is already installed.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
}

#[cfg(not(feature = "redis"))]
async fn redis(_: &[String], _: bool, _: &Settings) -> Result<OpenStore, OpenStoreError> {
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
    Failed(Box<dyn Error + Send + Sync>),
}

impl OpenStoreError {
    fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_no_password() {
        let place = |url: &str| url.parse::<StoreUrl>().unwrap().place();
        assert_eq!(place("sqlite:a/b.db"), "a/b.db");
        assert_eq!(place("postgres://u:s@cret@h:1/db?password=secret"), "h:1/db");
        assert_eq!(place("postgres:///db?password=se@cret"), "");
        assert_eq!(place("postgres://u:se?cret@h/db"), "");
        assert_eq!(place("redis+cluster://u:secret@a:1,b:2"), "a:1/,b:2/");
    }

    #[test]
    fn urls_name_stores() {
        assert_eq!("sqlite:a/b.db".parse(), Ok(StoreUrl::Sqlite("a/b.db".into())));
        assert_eq!("sqlite:/a/b.db".parse(), Ok(StoreUrl::Sqlite("/a/b.db".into())));
        for url in ["postgres://localhost/chat", "postgresql:///chat?host=%2Ftmp"] {
            assert_eq!(url.parse(), Ok(StoreUrl::Postgres(url.into())));
        }
        for url in ["redis://localhost", "rediss://u:p@redis.internal:6380/2", "redis+unix:///run/redis.sock"] {
            assert_eq!(url.parse(), Ok(StoreUrl::Redis(url.into())));
        }
        let wrong = ["", "memory:", "chat.db", "sqlite:", "postgres:", "postgres:x", "redis://", "mysql://x"];
        for wrong in wrong {
            assert_eq!(wrong.parse::<StoreUrl>(), Err(StoreUrlError), "{wrong}");
        }
    }

    #[test]
    fn a_cluster_url_lists_some_of_its_nodes() {
        let cluster = |urls: &[&str]| Ok(StoreUrl::RedisCluster(urls.iter().map(|&url| url.into()).collect()));
        assert_eq!("redis+cluster://a:1,b:2".parse(), cluster(&["redis://a:1/", "redis://b:2/"]));
        assert_eq!("redis+cluster://a:1/".parse(), cluster(&["redis://a:1/"]));
        let with_user = "rediss+cluster://u:p@x@a:1,b:2".parse();
        assert_eq!(with_user, cluster(&["rediss://u:p@x@a:1/", "rediss://u:p@x@b:2/"]));
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
            assert!(shown.contains("expected sqlite:PATH") && !shown.contains("secret"), "{shown}");
        }
    }
}
