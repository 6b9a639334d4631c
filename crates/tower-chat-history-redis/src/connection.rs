//! Connections: to a single server, to a Cluster, or an existing one.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, RedisError, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo},
    io::tcp::TcpSettings,
};
use tokio::{sync, time::Instant};

use crate::{
    error::{Failure, OpenError},
    options::RedisOptions,
};

/// The time limit for an attempt to connect to a single server, if the options have none.
pub(crate) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The same for a node of a Cluster. Calls to other nodes may wait for such an attempt, so the time is shorter.
pub(crate) const CLUSTER_CONNECTION_TIMEOUT: Duration = Duration::from_millis(500);

/// Reconnecting: the first and the longest pause between attempts, and the number of attempts before calls fail.
const FIRST_RECONNECT_MILLIS: u64 = 10;
const MAX_RECONNECT_MILLIS: u64 = 500;
const MAX_RECONNECTS: usize = 6;

/// A connection to a single server is replaced again after this time at the earliest.
const REPLACEMENT_PAUSE: Duration = Duration::from_millis(500);

/// A connection that all calls of a store share.
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
            .set_min_delay(Duration::from_millis(FIRST_RECONNECT_MILLIS))
            .set_max_delay(Duration::from_millis(MAX_RECONNECT_MILLIS))
            .set_number_of_retries(MAX_RECONNECTS);

        let manager = ConnectionManager::new_with_config(client.clone(), config.clone());
        let manager = manager.await.map_err(OpenError::unreachable)?;

        let transport = Arc::new(Single::new(client, config, manager));
        Ok(Self { transport, reaches_masters: true, divides_keys: false })
    }

    pub(crate) async fn cluster(urls: Vec<String>, options: &RedisOptions) -> Result<Self, OpenError> {
        let client = cluster_client(urls, options)
            .response_timeout(options.response_timeout)
            .connection_timeout(options.connection_timeout.unwrap_or(CLUSTER_CONNECTION_TIMEOUT))
            .tcp_settings(tcp(options))
            .min_retry_wait(FIRST_RECONNECT_MILLIS)
            .max_retry_wait(MAX_RECONNECT_MILLIS)
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

/// Returns the host and port of an address, or its socket. They contain no secret.
pub(crate) fn server_address(url: &str) -> Option<String> {
    url.into_connection_info().ok().map(|info| info.addr().to_string())
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

/// A connection to a single server.
///
/// redis-rs reconnects if a connection breaks. This type replaces a connection that redis-rs would keep, in three
/// cases: responses time out but the connection does not break, the server is no longer a master, or redis-rs has given
/// up reconnecting, for example while a password is changed.
struct Single {
    client: Client,
    config: ConnectionManagerConfig,
    current: Mutex<CurrentManager>,
}

struct CurrentManager {
    manager: ConnectionManager,
    /// The number of the connection. Many calls notice a broken connection at once, and only one of them replaces it.
    number: u64,
    /// The time at which it replaced another connection.
    since: Option<Instant>,
}

impl Single {
    const fn new(client: Client, config: ConnectionManagerConfig, manager: ConnectionManager) -> Self {
        Self { client, config, current: Mutex::new(CurrentManager { manager, number: 0, since: None }) }
    }

    fn current(&self) -> MutexGuard<'_, CurrentManager> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces a connection, unless another call already has, or the connection is new. The address is resolved again.
    ///
    /// The first call that uses the new connection establishes it. Calls on the old one keep it until they end.
    fn replace(&self, number: u64) {
        let mut current = self.current();
        if current.number != number || current.since.is_some_and(|since| since.elapsed() < REPLACEMENT_PAUSE) {
            return;
        }

        if let Ok(manager) = ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            *current = CurrentManager { manager, number: number + 1, since: Some(Instant::now()) };
        }
    }
}

impl Transport for Single {
    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        self.send(command)
    }

    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        let current = self.current();
        let mut manager = current.manager.clone();
        let number = current.number;
        drop(current);

        Box::pin(async move {
            let answer = command.query_async(&mut manager).await;
            if answer.as_ref().is_err_and(|error: &RedisError| Failure(error.clone()).suggests_reconnect()) {
                self.replace(number);
            }
            answer
        })
    }
}

/// A connection to a Cluster.
///
/// If a node hangs but its operating system does not, redis-rs keeps the connection to it, also after a replica took
/// its place. So if a response times out, this type sends the command over a new connection, which asks one of the
/// addresses of the store for the slots. It keeps the new connection only if there is an answer. Otherwise the old one
/// stays, because it serves calls to other nodes without a wait for the one that hangs.
///
/// Every command may be sent twice: those of scripts by the rules of `Retry`, and the others change nothing twice.
struct Cluster {
    client: ClusterClient,
    current: Mutex<CurrentCluster>,
    /// Locked while a call makes a new connection. Others that time out wait for it, within their time limits.
    renewal: sync::Mutex<()>,
}

#[derive(Clone)]
struct CurrentCluster {
    connection: ClusterConnection,
    /// The number of the connection. Many calls time out at once, and only one of them replaces the connection.
    number: u64,
}

/// The nodes that get a command.
#[derive(Clone, Copy)]
enum To {
    /// The node that has the keys.
    NodeOfKeys,
    Masters,
}

impl Cluster {
    fn new(client: ClusterClient, connection: ClusterConnection) -> Self {
        let current = CurrentCluster { connection, number: 0 };
        Self { client, current: Mutex::new(current), renewal: sync::Mutex::new(()) }
    }

    fn current(&self) -> MutexGuard<'_, CurrentCluster> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, command: &Cmd, to: To) -> RedisResult<Value> {
        let CurrentCluster { mut connection, number } = self.current().clone();
        let answer = ask_over(&mut connection, command, to).await;
        if answer.as_ref().is_err_and(|error| error.is_timeout())
            && let Some(answer) = self.ask_anew(command, to, number).await
        {
            return answer;
        }
        answer
    }

    /// Sends a command over another connection than the one with this number: the current one if it was replaced in the
    /// meantime, or a new one. Returns `None` if there is no answer.
    async fn ask_anew(&self, command: &Cmd, to: To, number: u64) -> Option<RedisResult<Value>> {
        let guard = self.renewal.lock().await;
        let mut current = self.current().clone();
        if current.number != number {
            drop(guard);
            return Some(ask_over(&mut current.connection, command, to).await);
        }

        current.connection = self.client.get_async_connection().await.ok()?;
        let answer = ask_over(&mut current.connection, command, to).await;
        if answer.as_ref().is_err_and(|error| Failure(error.clone()).is_transient()) {
            return None;
        }

        *self.current() = CurrentCluster { number: number + 1, ..current };
        Some(answer)
    }
}

async fn ask_over(connection: &mut ClusterConnection, command: &Cmd, to: To) -> RedisResult<Value> {
    match to {
        To::NodeOfKeys => command.query_async(connection).await,
        To::Masters => {
            let masters = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
            connection.route_command(command.clone(), masters).await
        }
    }
}

impl Transport for Cluster {
    fn send<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        Box::pin(self.ask(command, To::NodeOfKeys))
    }

    fn send_to_masters<'a>(&'a self, command: &'a Cmd) -> Sending<'a> {
        Box::pin(self.ask(command, To::Masters))
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
