//! How a store is opened.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{
    Config, NoTls, Socket,
    config::SslMode,
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
    connections: usize,
    wait: Duration,
    retry_for: Duration,
    prepare: bool,
}

impl PostgresOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "chat_history".into(),
            connections: 10,
            wait: Duration::from_secs(5),
            retry_for: Duration::from_secs(1),
            prepare: true,
        }
    }

    /// The schema that all tables and functions are in, so that the store can share a database: 1 to 63 characters of a-z, 0-9
    /// and _, and not a digit or `pg_` first. It is created if it is not there. The default is `chat_history`.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// How many connections the store's own pool has at most. They are made when they are needed. The default is 10.
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
        if self.connections == 0 {
            return Err(OpenError::NoConnections);
        }
        // Whether a connection is closed is known without asking the server, and asking would be one more round trip a call.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(self.with_defaults(config), tls, recycling))
            .max_size(self.connections)
            .wait_timeout(Some(self.wait))
            .create_timeout(Some(self.wait))
            .runtime(Runtime::Tokio1)
            .build();
        self.with_pool(pool.map_err(|_| OpenError::NoConnections)?).await
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
        let Self { schema, prepare, retry_for, .. } = self;
        if !is_name(&schema) {
            return Err(OpenError::SchemaName);
        }
        let sql = Sql::new(&schema);
        let defaults = Defaults::default();
        let (loads, appends) = (Line::default(), Line::default());
        let mut database = Database { pool, schema, sql, prepare, retry_for, defaults, loads, appends };
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

/// Whether a name needs no escaping within quotes, nor quotes elsewhere.
fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=63).contains(&name.len())
        && name.bytes().all(legal)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_plain_names() {
        for legal in ["chat", "_", "chat_history_2"] {
            assert!(is_name(legal), "{legal}");
        }
        for wrong in ["", "Chat", "2chat", "a-b", "a\"b", "pg_chat", "é", &"x".repeat(64)] {
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
        let refused = PostgresOptions::new().connections(0).connect("postgres://localhost/x").await;
        assert!(matches!(refused, Err(OpenError::NoConnections)), "{refused:?}");
        let refused = PostgresOptions::new().schema("a b").connect("postgres://localhost/x").await;
        assert!(matches!(refused, Err(OpenError::SchemaName)), "{refused:?}");
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
