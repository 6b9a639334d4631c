//! The connection: a single server's, a cluster's, or one that somebody else made.

use std::{
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{
    Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, RedisError, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
    cluster::ClusterClientBuilder,
    io::tcp::TcpSettings,
};
use tokio::time::Instant;

use crate::{OpenError, RedisOptions, error::Failure};

/// Reconnecting: the first and the longest pause between attempts, and how many there are before those who wait are told.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const ATTEMPTS: usize = 6;

/// What sends a command and waits for the answer, through any of the connections. It only boxes what is a box already.
trait Transport: Send + Sync {
    fn send<'a>(&'a self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Transport for C {
    fn send<'a>(&'a self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>> {
        let mut connection = self.clone();
        Box::pin(async move { command.query_async(&mut connection).await })
    }
}

/// How a connection is kept: commands are small and follow each other, so none waits for another's acknowledgement; and a peer that
/// is silently gone is found out where the system can do that, not after its quarter of an hour.
fn tcp(options: &RedisOptions) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(silence(options.response_timeout));
    #[cfg(not(target_os = "linux"))]
    let _ = options;
    settings
}

/// How long a peer may be silent: twice as long as an answer may take, and no longer than the system can count, which
/// is 31 bits of milliseconds. It refuses a longer time.
#[cfg(target_os = "linux")]
fn silence(response_timeout: Duration) -> Duration {
    const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);
    response_timeout.saturating_mul(2).min(LONGEST)
}

/// Where an address leads to: host and port, or a socket. There is no secret in it.
pub(crate) fn place(url: &str) -> Option<String> {
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

pub(crate) struct Connection(Box<dyn Transport>);

impl Connection {
    pub(crate) async fn single(url: &str, options: &RedisOptions) -> Result<Self, OpenError> {
        let info = url.into_connection_info().map_err(OpenError::unreachable)?;
        let client = client(info.set_tcp_settings(tcp(options)), options).map_err(OpenError::unreachable)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(options.response_timeout))
            .set_connection_timeout(Some(options.connection_timeout))
            .set_min_delay(PAUSE)
            .set_max_delay(LONGEST_PAUSE)
            .set_number_of_retries(ATTEMPTS);
        let manager = ConnectionManager::new_with_config(client.clone(), config.clone());
        let manager = manager.await.map_err(OpenError::unreachable)?;
        let current = Mutex::new(Current { manager, number: 0, since: None });
        Ok(Self(Box::new(Single { client, config, current })))
    }

    pub(crate) async fn cluster(urls: Vec<String>, options: &RedisOptions) -> Result<Self, OpenError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let client = cluster_client(urls, options)
            .response_timeout(options.response_timeout)
            .connection_timeout(options.connection_timeout)
            .tcp_settings(tcp(options))
            .min_retry_wait(millis(PAUSE))
            .max_retry_wait(millis(LONGEST_PAUSE))
            .retries(u32::try_from(ATTEMPTS).unwrap_or(u32::MAX))
            .build()
            .map_err(OpenError::unreachable)?;
        let connection = client.get_async_connection().await.map_err(OpenError::unreachable)?;
        Ok(Self::other(connection))
    }

    pub(crate) fn other<C>(connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self(Box::new(connection))
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.0.send(command).await
    }
}

/// A single server's connection. redis-rs makes it anew when it breaks; this does where it would stay: when answers do not come
/// although nothing breaks, when the server is no master any more, and when reconnecting failed for good, as with a password that
/// is being changed.
struct Single {
    client: Client,
    config: ConnectionManagerConfig,
    current: Mutex<Current>,
}

struct Current {
    manager: ConnectionManager,
    /// Which one it is: many calls notice at once that one does not work, and one of them replaces it.
    number: u64,
    /// When it took another one's place.
    since: Option<Instant>,
}

impl Single {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another connection, to whatever the address leads to by now, in the place of that one; not of a new one, which did
    /// not have its chance. It is made by the first call that uses it; those on the old one keep it until they have ended.
    fn replace(&self, number: u64) {
        let mut current = self.current();
        if current.number != number || current.since.is_some_and(|since| since.elapsed() < LONGEST_PAUSE) {
            return;
        }
        if let Ok(manager) = ConnectionManager::new_lazy_with_config(self.client.clone(), self.config.clone()) {
            *current = Current { manager, number: number + 1, since: Some(Instant::now()) };
        }
    }
}

impl Transport for Single {
    fn send<'a>(&'a self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>> {
        let (mut manager, number) = {
            let current = self.current();
            (current.manager.clone(), current.number)
        };
        Box::pin(async move {
            let answer = command.query_async(&mut manager).await;
            if answer.as_ref().is_err_and(|error: &RedisError| Failure(error.clone()).may_be_the_connections()) {
                self.replace(number);
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_peer_may_be_silent_for_as_long_as_the_system_can_count() {
        let largest = Duration::from_millis(i32::MAX as u64);
        for (asked, silent) in [
            (Duration::ZERO, Duration::ZERO),
            (Duration::from_secs(2), Duration::from_secs(4)),
            (largest / 2, largest),
            (largest, largest),
            (Duration::from_secs(30 * 24 * 3_600), largest),
            (Duration::MAX, largest),
        ] {
            assert_eq!(silence(asked), silent);
        }
    }

    #[test]
    fn a_place_has_no_secret() {
        for (url, expected) in [
            ("redis://me:secret@db.internal:7/3", Some("db.internal:7")),
            ("redis://[::1]/", Some("::1:6379")),
            ("unix:///run/redis.sock?user=me&pass=secret", Some("/run/redis.sock")),
            ("secret", None),
        ] {
            assert_eq!(place(url).as_deref(), expected, "{url}");
        }
    }
}
