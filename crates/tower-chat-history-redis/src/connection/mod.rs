//! Connections: to a single server, to a Cluster, or an existing one.

mod cluster;
mod single;

use std::{pin::Pin, sync::Arc, time::Duration};

use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, RedisError, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
    cluster::ClusterClientBuilder,
    io::tcp::TcpSettings,
};

use self::{cluster::Cluster, single::Single};
use crate::{error::OpenError, options::RedisOptions};

/// The time limit for an attempt to connect to a single server, if the options have none.
pub(crate) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a node of a Cluster. Calls to other nodes may wait for such an attempt, so the time is shorter.
pub(crate) const CLUSTER_CONNECTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Reconnecting: the first and the longest pause between attempts, and the number of attempts before calls fail.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);
const MAX_RECONNECTS: usize = 6;

/// Sends a command over any of the connections. The future is boxed, as it is already inside redis-rs.
trait Transport: Send + Sync {
    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a>;

    /// Sends a command without keys to each master. The answer of a Cluster is a map.
    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a>;
}

type Sending<'a> = Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Transport for C {
    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        let mut connection = self.clone();
        Box::pin(async move { command.query_async(&mut connection).await })
    }

    /// The connection may be to a Cluster. It then decides which masters get the command.
    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        self.send(command)
    }
}

/// Returns the TCP settings. Nagle's algorithm is off, because commands are small and follow each other. On Linux, the
/// system detects a silent peer earlier than after its default of about 15 minutes.
fn tcp(options: &RedisOptions) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(user_timeout(options.response_timeout));
    #[cfg(not(target_os = "linux"))]
    let _ = options;
    settings
}

/// Returns the time for which a peer may be silent: twice the response timeout, but at most 31 bits of milliseconds.
/// The system refuses a longer time.
#[cfg(target_os = "linux")]
fn user_timeout(response_timeout: Duration) -> Duration {
    const MAX_USER_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);
    response_timeout.saturating_mul(2).min(MAX_USER_TIMEOUT)
}

/// Returns the host and port of an address, or its socket. They contain no secret.
pub(crate) fn server_address(url: &str) -> Option<String> {
    url.into_connection_info().ok().map(|info| info.addr().to_string())
}

#[cfg(feature = "rustls")]
fn client(info: ConnectionInfo, options: &RedisOptions) -> RedisResult<Client> {
    match options.tls.certificates() {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

#[cfg(not(feature = "rustls"))]
fn client(info: ConnectionInfo, _: &RedisOptions) -> RedisResult<Client> {
    Client::open(info)
}

#[cfg(feature = "rustls")]
fn cluster_client(urls: Vec<String>, options: &RedisOptions) -> ClusterClientBuilder {
    let client = ClusterClientBuilder::new(urls);
    match options.tls.certificates() {
        Some(certificates) => client.certs(certificates),
        None => client,
    }
}

#[cfg(not(feature = "rustls"))]
fn cluster_client(urls: Vec<String>, _: &RedisOptions) -> ClusterClientBuilder {
    ClusterClientBuilder::new(urls)
}

#[derive(Clone)]
pub(crate) struct Connection {
    transport: Arc<dyn Transport>,
    /// `true` if `send_to_masters` reaches each master of a Cluster.
    pub(crate) reaches_masters: bool,
    /// `true` if it is known to divide the keys among several servers.
    pub(crate) divides_keys: bool,
}

impl Connection {
    pub(crate) async fn single(url: &str, options: &RedisOptions) -> Result<Self, OpenError> {
        let info = url.into_connection_info().map_err(OpenError::unreachable)?;
        let client = client(info.set_tcp_settings(tcp(options)), options).map_err(OpenError::unreachable)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(options.response_timeout))
            .set_connection_timeout(Some(options.connection_timeout.unwrap_or(CONNECTION_TIMEOUT)))
            .set_min_delay(FIRST_PAUSE)
            .set_max_delay(MAX_PAUSE)
            .set_number_of_retries(MAX_RECONNECTS);
        let manager = ConnectionManager::new_with_config(client.clone(), config.clone());
        let manager = manager.await.map_err(OpenError::unreachable)?;
        let transport = Arc::new(Single::new(client, config, manager));
        Ok(Self { transport, reaches_masters: true, divides_keys: false })
    }

    pub(crate) async fn cluster(urls: Vec<String>, options: &RedisOptions) -> Result<Self, OpenError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let client = cluster_client(urls, options)
            .response_timeout(options.response_timeout)
            .connection_timeout(options.connection_timeout.unwrap_or(CLUSTER_CONNECTION_TIMEOUT))
            .tcp_settings(tcp(options))
            .min_retry_wait(millis(FIRST_PAUSE))
            .max_retry_wait(millis(MAX_PAUSE))
            .retries(u32::try_from(MAX_RECONNECTS).unwrap_or(u32::MAX))
            .build()
            .map_err(OpenError::unreachable)?;
        let connection = client.get_async_connection().await.map_err(OpenError::unreachable)?;
        let transport = Arc::new(Cluster::new(client, connection));
        Ok(Self { transport, reaches_masters: true, divides_keys: true })
    }

    pub(crate) fn other<C>(connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self { transport: Arc::new(connection), reaches_masters: false, divides_keys: false }
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.transport.send(command).await
    }

    /// Sends a command without keys to the single server, or to each master of a Cluster, whose answer is a map.
    pub(crate) async fn send_to_masters(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.transport.send_to_masters(command).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_user_timeout_is_limited_to_what_the_system_accepts() {
        let largest = Duration::from_millis(i32::MAX as u64);
        for (asked, silent) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_secs(2), Duration::from_secs(4)),
            (largest / 2, largest),
            (largest, largest),
            (Duration::from_secs(30 * 24 * 3_600), largest),
            (Duration::MAX, largest),
        ] {
            assert_eq!(user_timeout(asked), silent);
        }
    }

    #[test]
    fn a_servers_address_has_no_secret() {
        for (url, expected) in [
            ("redis://me:secret@db.internal:7/3", Some("db.internal:7")),
            ("redis://[::1]/", Some("::1:6379")),
            ("unix:///run/redis.sock?user=me&pass=secret", Some("/run/redis.sock")),
            ("secret", None),
        ] {
            assert_eq!(server_address(url).as_deref(), expected, "{url}");
        }
    }
}
