//! How a store is opened.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{
    Config, NoTls, Socket,
    config::{Host, SslMode},
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{
    OpenError, PostgresStore,
    database::{Database, Defaults, Line},
    schema,
    sql::Sql,
};

/// How long a connection may be silent before the system asks whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long the system waits before it asks again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Options of a [`PostgresStore`]. The defaults are right for most services.
///
/// ```no_run
/// use tower_chat_history_postgres::PostgresOptions;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let options = PostgresOptions::new().schema("support_chat").connections(16);
/// let store = options.connect("postgres://chat@db.internal/app").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    schema: String,
    schema_owner: Option<String>,
    connections: usize,
    wait: Duration,
    retry_for: Duration,
    prepare: bool,
}

impl PostgresOptions {
    /// The most connections that the store's own pool can have: as many as a server can have (`max_connections`).
    pub const MAX_CONNECTIONS: usize = 262_143;

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "chat_history".into(),
            schema_owner: None,
            connections: 10,
            wait: Duration::from_secs(5),
            retry_for: Duration::from_secs(1),
            prepare: true,
        }
    }

    /// The schema that all tables and functions are in, so that the store can share a database: 1 to 63 characters of
    /// a-z, 0-9 and _, not a digit or `pg_` first, and not `information_schema`. It is created if it is not there. The
    /// default is `chat_history`.
    ///
    /// A schema that is there must belong to the current role, to a role that it is a member of, or to a superuser; or
    /// its owner is [named](Self::schema_owner).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Trusts the role of that name as the owner of the schema and of the store's tables and functions in it. It is
    /// needed where another role than the application's, of which the application's is no member, creates them. The
    /// default is none.
    ///
    /// The owner is trusted with everything that the application's role may do, in this database and elsewhere on the
    /// server: the owner of a schema may replace the functions in it, and they run with the rights of whoever calls
    /// them.
    #[must_use]
    pub fn schema_owner(mut self, role: impl Into<String>) -> Self {
        self.schema_owner = Some(role.into());
        self
    }

    /// Sets how many connections the store's own pool has at most: 1 to [`MAX_CONNECTIONS`](Self::MAX_CONNECTIONS).
    /// They are made when they are needed. The default is 10.
    ///
    /// Few are enough: loads and appends for which none is free share the next one, in one statement.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long a call waits for a connection of the store's own pool to be free, and as long again for one to be made. After
    /// that it fails with [`Unavailable`](tower_chat_history_core::StoreError::Unavailable).
    /// The default is 5 seconds.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long a call is tried again after failures that may pass: a lost connection, a server that is starting, a deadlock.
    /// One repetition is made in any case, and no further one is begun after 40 seconds. What the server ended for a time limit,
    /// as that for locks, is not tried again. The default is 1 second.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Whether statements are prepared once a connection and kept. Turn it off behind a pooler that gives each transaction
    /// another server connection and does not follow prepared statements (PgBouncer before 1.21): a statement is then planned
    /// at each call. The default is `true`.
    #[must_use]
    pub const fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }

    /// Connects to a `postgres://` URL without TLS, and creates the tables if they are not there.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists. With `sslmode=require`, `verify-ca` or `verify-full` in the URL it is
    /// [`NeedsTls`](OpenError::NeedsTls).
    pub async fn connect(self, url: &str) -> Result<PostgresStore, OpenError> {
        let config = parse(url)?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(OpenError::NeedsTls);
        }
        self.connect_with(config, NoTls).await
    }

    /// Connects with TLS by rustls: the server's certificate must be for the URL's host, and signed by one of the system's
    /// roots. A server without TLS is refused. That is `sslmode=verify-full`, whatever the URL says of it.
    ///
    /// For other roots or a client certificate give a connector of your own to [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    #[cfg(feature = "rustls")]
    pub async fn connect_rustls(self, url: &str) -> Result<PostgresStore, OpenError> {
        let mut config = parse(url)?;
        config.ssl_mode(SslMode::Require);
        self.connect_with(config, crate::tls::system_roots()?).await
    }

    /// Connects with that configuration and TLS connector (`tokio_postgres::NoTls`, `tokio_postgres_rustls`,
    /// `postgres_native_tls` or another one). Whether TLS is used at all is up to the configuration's `ssl_mode`.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    pub async fn connect_with<T>(self, config: Config, tls: T) -> Result<PostgresStore, OpenError>
    where
        T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
        T::Stream: Sync + Send,
        T::TlsConnect: Sync + Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        if !(1..=Self::MAX_CONNECTIONS).contains(&self.connections) {
            return Err(OpenError::Connections { asked: self.connections });
        }
        let (server, database) = (server(&config), config.get_dbname().map(str::to_owned));
        // Whether a connection is closed is known without asking the server, and asking would be one more round trip a call.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(self.with_defaults(config), tls, recycling))
            .max_size(self.connections)
            .wait_timeout(Some(self.wait))
            .create_timeout(Some(self.wait))
            .runtime(Runtime::Tokio1)
            .build();
        let asked = self.connections;
        let pool = pool.map_err(|_| OpenError::Connections { asked })?;
        self.open(pool, server).await.map_err(|error| error.of(database))
    }

    /// Uses a pool that is there already: its size and its timeouts hold, and [`connections`](Self::connections) and
    /// [`wait`](Self::wait) do not. The tables are created if they are not there.
    ///
    /// The role's `search_path` and other settings do not matter; every name carries its schema.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    pub async fn with_pool(self, pool: Pool) -> Result<PostgresStore, OpenError> {
        self.open(pool, None).await
    }

    async fn open(self, pool: Pool, server: Option<String>) -> Result<PostgresStore, OpenError> {
        let Self { schema, schema_owner, prepare, retry_for, .. } = self;
        if !is_name(&schema) {
            return Err(OpenError::SchemaName);
        }
        let sql = Sql::new(&schema);
        let defaults = Defaults::default();
        let (loads, appends) = (Line::default(), Line::default());
        let mut database =
            Database { pool, server, schema, schema_owner, sql, prepare, retry_for, defaults, loads, appends };
        schema::migrate(&mut database).await?;
        Ok(PostgresStore::new(database))
    }

    fn with_defaults(&self, mut config: Config) -> Config {
        if config.get_application_name().is_none() {
            config.application_name("tower-chat-history");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.wait);
        }
        // The system's own default is two hours, in which a vanished server would hold calls up.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(KEEPALIVE);
        }
        config
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn parse(url: &str) -> Result<Config, OpenError> {
    // The driver does not know these two: it leaves to the connector what is checked.
    let verified = |parameter| matches!(parameter, "sslmode=verify-full" | "sslmode=verify-ca");
    let config = match url.rsplit_once('?') {
        Some((place, parameters)) if parameters.split('&').any(verified) => {
            let others: Vec<_> = parameters.split('&').filter(|parameter| !verified(parameter)).collect();
            format!("{place}?sslmode=require&{}", others.join("&")).trim_end_matches('&').parse()
        }
        _ => url.parse(),
    };
    config.map_err(|_| OpenError::Url)
}

/// Where a configuration says that the server is: its hosts and their ports. There is no secret in it.
fn server(config: &Config) -> Option<String> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let place = |at: usize| {
        let host = match (hosts.get(at), addresses.get(at)) {
            (Some(Host::Tcp(host)), _) => host.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(directory)), _) => directory.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => return None,
        };
        // One port stands for all hosts, and none for PostgreSQL's own.
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        Some(format!("{host}:{port}"))
    };
    let places: Vec<String> = (0..hosts.len().max(addresses.len())).filter_map(place).collect();
    (!places.is_empty()).then(|| places.join(", "))
}

/// Whether a name needs no escaping within quotes, nor quotes elsewhere.
fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
        && name != "information_schema"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_plain_names() {
        for legal in ["chat", "_", "chat_history_2"] {
            assert!(is_name(legal), "{legal}");
        }
        for wrong in ["", "Chat", "2chat", "a-b", "a\"b", "pg_chat", "information_schema", "é", &"x".repeat(64)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_is_refused_before_a_connection_is_made() {
        let refused = PostgresOptions::new().connect("no url").await;
        assert!(matches!(refused, Err(OpenError::Url)), "{refused:?}");
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://localhost/x?sslmode={mode}&connect_timeout=1");
            let refused = PostgresOptions::new().connect(&url).await;
            assert!(matches!(refused, Err(OpenError::NeedsTls)), "{refused:?}");
        }
        for wrong in [0, PostgresOptions::MAX_CONNECTIONS + 1, usize::MAX] {
            let refused = PostgresOptions::new().connections(wrong).connect("postgres://localhost/x").await;
            assert!(matches!(refused, Err(OpenError::Connections { asked }) if asked == wrong), "{refused:?}");
        }
        let refused = PostgresOptions::new().schema("a b").connect("postgres://localhost/x").await;
        assert!(matches!(refused, Err(OpenError::SchemaName)), "{refused:?}");
    }

    #[test]
    fn errors_name_the_place_and_no_secret() {
        for (url, place) in [
            ("postgres://me:secret@db.internal/app", Some("db.internal:5432")),
            ("postgres://me:secret@one:1,two:2/app", Some("one:1, two:2")),
            ("postgres:///app?host=%2Frun&port=7&password=secret", Some("/run:7")),
            ("hostaddr=127.0.0.1 user=me password=secret", Some("127.0.0.1:5432")),
            ("user=me password=secret", None),
        ] {
            assert_eq!(server(&parse(url).unwrap()).as_deref(), place, "{url}");
        }
    }

    #[test]
    fn a_vanished_server_is_noticed_unless_the_url_says_otherwise() {
        let options = PostgresOptions::new();
        let config = options.with_defaults(parse("postgres://localhost/x").unwrap());
        assert_eq!((config.get_keepalives_idle(), config.get_tcp_user_timeout()), (KEEPALIVE, Some(&KEEPALIVE)));
        let own = "postgres://localhost/x?keepalives_idle=5&tcp_user_timeout=6&connect_timeout=7&application_name=a";
        let config = options.with_defaults(parse(own).unwrap());
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(5));
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(6)));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_application_name(), Some("a"));
    }
}
