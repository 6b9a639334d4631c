//! Opening a store.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{
    Config, NoTls, Socket,
    config::{Host, SslMode},
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{
    database::{Database, SessionDefaults},
    error::OpenError,
    options::{PostgresOptions, is_plain_name},
    schema,
    sql::Sql,
    store::PostgresStore,
};

/// The time without traffic after which the system probes the connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// The time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

impl PostgresStore {
    /// Connects to a `postgres://` URL without TLS, with the default [options](PostgresOptions). Creates the tables if
    /// they do not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        PostgresOptions::new().connect(url).await
    }

    /// Uses an existing pool, with the default [options](PostgresOptions). Creates the tables if they do not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn with_pool(pool: Pool) -> Result<Self, OpenError> {
        PostgresOptions::new().with_pool(pool).await
    }
}

impl PostgresOptions {
    /// Connects to a `postgres://` URL without TLS, and creates the tables if they do not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`]. If the URL has `sslmode=require`, `verify-ca` or `verify-full`, the
    /// error is [`NeedsTls`](OpenError::NeedsTls).
    pub async fn connect(self, url: &str) -> Result<PostgresStore, OpenError> {
        let config = parse(url)?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(OpenError::NeedsTls);
        }
        self.connect_with(config, NoTls).await
    }

    /// Connects to a `postgres://` URL with TLS by rustls, and creates the tables if they do not exist.
    ///
    /// The server's certificate must be for the URL's host and signed by one of the system's roots. A server without
    /// TLS is refused. This is `sslmode=verify-full`, whatever the URL says.
    ///
    /// For other roots or a client certificate, pass a connector to [`connect_with`](Self::connect_with).
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    #[cfg(feature = "rustls")]
    pub async fn connect_rustls(self, url: &str) -> Result<PostgresStore, OpenError> {
        let mut config = parse(url)?;
        config.ssl_mode(SslMode::Require);
        self.connect_with(config, system_roots()?).await
    }

    /// Connects with a configuration and a TLS connector, and creates the tables if they do not exist.
    ///
    /// The connector is `tokio_postgres::NoTls`, or one of `tokio_postgres_rustls`, `postgres_native_tls` or another
    /// crate. The configuration's `ssl_mode` decides if TLS is used.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect_with<T>(self, config: Config, tls: T) -> Result<PostgresStore, OpenError>
    where
        T: MakeTlsConnect<Socket> + Clone + Sync + Send + 'static,
        T::Stream: Sync + Send,
        T::TlsConnect: Sync + Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        if !(1..=Self::MAX_CONNECTIONS).contains(&self.connections) {
            return Err(OpenError::Connections { connections: self.connections });
        }

        let server = server(&config);
        let database = config.get_dbname().map(str::to_owned);

        // `Fast` checks locally if a connection is closed. A check by a query would cost each call one more round trip.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_config(self.with_defaults(config), tls, recycling))
            .max_size(self.connections)
            .wait_timeout(Some(self.pool_timeout))
            .create_timeout(Some(self.pool_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| OpenError::Connections { connections: self.connections })?;

        self.open(pool, server).await.map_err(|error| error.of(database))
    }

    /// Uses an existing pool, and creates the tables if they do not exist.
    ///
    /// The pool's own size and timeouts apply. [`connections`](Self::connections) and [`pool_timeout`](Self::pool_timeout) do not.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn with_pool(self, pool: Pool) -> Result<PostgresStore, OpenError> {
        self.open(pool, None).await
    }

    async fn open(self, pool: Pool, server: Option<String>) -> Result<PostgresStore, OpenError> {
        let Self { schema, schema_owner, create_schema, prepare, retry_for, .. } = self;
        if !is_plain_name(&schema) {
            return Err(OpenError::SchemaName { name: schema });
        }

        let sql = Sql::new(&schema);
        let defaults = SessionDefaults::default();
        let mut database = Database { pool, server, schema, schema_owner, sql, prepare, retry_for, defaults };
        schema::migrate(&mut database, create_schema).await?;
        Ok(PostgresStore::new(database))
    }

    fn with_defaults(&self, mut config: Config) -> Config {
        if config.get_application_name().is_none() {
            config.application_name("tower-chat-history");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.pool_timeout);
        }

        // The system's default is two hours. A server that vanished would block calls for that long.
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(KEEPALIVE_IDLE);
        }
        if config.get_keepalives_interval().is_none() {
            config.keepalives_interval(KEEPALIVE_INTERVAL);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(KEEPALIVE_IDLE);
        }

        config
    }
}

fn parse(url: &str) -> Result<Config, OpenError> {
    let config = match url.rsplit_once('?') {
        Some((start, parameters)) if parameters.split('&').any(verifies) => {
            let others: Vec<_> = parameters.split('&').filter(|parameter| !verifies(parameter)).collect();
            format!("{start}?sslmode=require&{}", others.join("&")).trim_end_matches('&').parse()
        }
        _ => url.parse(),
    };
    config.map_err(|_| OpenError::Url)
}

/// Returns `true` if a parameter is one of the two modes that verify the server's certificate. The driver does not
/// support them, so it gets `require`, and the connector checks the certificate.
fn verifies(parameter: &str) -> bool {
    matches!(parameter, "sslmode=verify-full" | "sslmode=verify-ca")
}

/// Returns the hosts and ports of a configuration. They contain no secret.
fn server(config: &Config) -> Option<String> {
    let hosts = config.get_hosts();
    let addresses = config.get_hostaddrs();
    let ports = config.get_ports();

    let mut servers = Vec::new();
    for at in 0..hosts.len().max(addresses.len()) {
        let host = match (hosts.get(at), addresses.get(at)) {
            (Some(Host::Tcp(host)), _) => host.clone(),
            #[cfg(unix)]
            (Some(Host::Unix(directory)), _) => directory.display().to_string(),
            (None, Some(address)) => address.to_string(),
            (None, None) => continue,
        };
        // A single port applies to all hosts. Without one, it is PostgreSQL's default.
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        servers.push(format!("{host}:{port}"));
    }

    if servers.is_empty() { None } else { Some(servers.join(", ")) }
}

/// Returns a connector that trusts the system's roots.
#[cfg(feature = "rustls")]
fn system_roots() -> Result<tokio_postgres_rustls::MakeRustlsConnect, OpenError> {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore};

    let mut roots = RootCertStore::empty();
    // Certificates that rustls cannot read are left out.
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(OpenError::Tls("the system has no root certificates".into()));
    }

    // The provider is set explicitly, because rustls selects none if a program contains two.
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Tls(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(tokio_postgres_rustls::MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_have_plain_names() {
        for legal in ["chat", "_", "chat_history_2"] {
            assert!(is_plain_name(legal), "{legal}");
        }
        for wrong in ["", "Chat", "2chat", "a-b", "a\"b", "pg_chat", "information_schema", "é", &"x".repeat(64)] {
            assert!(!is_plain_name(wrong), "{wrong}");
        }
    }

    #[tokio::test]
    async fn invalid_options_are_refused_before_connecting() {
        let refused = PostgresOptions::new().connect("no url").await;
        assert!(matches!(refused, Err(OpenError::Url)), "{refused:?}");
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = format!("postgres://localhost/x?sslmode={mode}&connect_timeout=1");
            let refused = PostgresOptions::new().connect(&url).await;
            assert!(matches!(refused, Err(OpenError::NeedsTls)), "{refused:?}");
        }
        for wrong in [0, PostgresOptions::MAX_CONNECTIONS + 1, usize::MAX] {
            let refused = PostgresOptions::new().connections(wrong).connect("postgres://localhost/x").await;
            assert!(
                matches!(refused, Err(OpenError::Connections { connections }) if connections == wrong),
                "{refused:?}"
            );
        }
        let refused = PostgresOptions::new().schema("a b").connect("postgres://localhost/x").await;
        assert!(matches!(&refused, Err(OpenError::SchemaName { name }) if name == "a b"), "{refused:?}");
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
        assert_eq!(
            (config.get_keepalives_idle(), config.get_tcp_user_timeout()),
            (KEEPALIVE_IDLE, Some(&KEEPALIVE_IDLE))
        );
        let own = "postgres://localhost/x?keepalives_idle=5&tcp_user_timeout=6&connect_timeout=7&application_name=a";
        let config = options.with_defaults(parse(own).unwrap());
        assert_eq!(config.get_keepalives_idle(), Duration::from_secs(5));
        assert_eq!(config.get_tcp_user_timeout(), Some(&Duration::from_secs(6)));
        assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(config.get_application_name(), Some("a"));
    }
}

#[cfg(feature = "rustls")]
#[cfg(test)]
mod tls_tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::Arc,
    };

    use rustls::{ClientConfig, RootCertStore};
    use tokio_postgres_rustls::MakeRustlsConnect;

    use super::*;

    /// Starts a server that accepts TLS, then sends these bytes.
    fn server(then: &'static [u8]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                client.read_exact(&mut [0; 8]).unwrap();
                client.write_all(b"S").unwrap();
                // The client's first message is longer than this.
                client.read_exact(&mut [0; 64]).unwrap();
                client.write_all(then).unwrap();
            }
        });
        port
    }

    async fn open(port: u16) -> OpenError {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let url = format!("postgres://user@localhost:{port}/x?sslmode=require");
        let options = PostgresOptions::new().retry_for(std::time::Duration::ZERO);
        options.connect_with(url.parse().unwrap(), MakeRustlsConnect::new(config)).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_failed_handshake_is_distinguished_from_a_lost_connection() {
        // An alert: the two sides have no TLS version in common.
        let refused = open(server(b"\x15\x03\x03\x00\x02\x02\x46")).await;
        assert!(
            matches!(&refused, OpenError::Handshake(source) if source.to_string().contains("ProtocolVersion")),
            "{refused:?}"
        );
        assert!(!refused.is_retryable());
        let lost = open(server(b"")).await;
        assert!(matches!(lost, OpenError::Postgres { .. }) && lost.is_retryable(), "{lost:?}");
    }
}
