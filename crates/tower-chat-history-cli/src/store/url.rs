//! URLs that name stores.

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use clap::{
    Arg, Command, Error,
    builder::{TypedValueParser, ValueParserFactory},
    error::ErrorKind,
};

use crate::file::is_same_file;

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

/// The endings of the names of SQLite's files: the database, and the files next to it.
const SQLITE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

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

impl std::error::Error for StoreUrlError {}

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

    fn parse_ref(&self, command: &Command, _: Option<&Arg>, value: &OsStr) -> Result<StoreUrl, Error> {
        let url = value.to_str().ok_or(StoreUrlError).and_then(str::parse);
        url.map_err(|error| Error::raw(ErrorKind::ValueValidation, format!("--store: {error}\n")).with_cmd(command))
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
