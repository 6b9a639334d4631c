//! The connection: a single server's, a cluster's, or one that somebody else made.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use redis::{
    Client, Cmd, IntoConnectionInfo as _, RedisError, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
    cluster::ClusterClientBuilder,
    io::tcp::TcpSettings,
};

use crate::{ConnectError, RedisOptions};

/// Reconnecting: the first and the longest pause between attempts, and how many there are before those who wait are told.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
const ATTEMPTS: usize = 6;

/// What sends a command and waits for the answer, through any of the connections. It only boxes what is a box already.
trait Transport: Send + Sync {
    fn send<'a>(&self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>>;
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Transport for C {
    fn send<'a>(&self, command: &'a Cmd) -> Pin<Box<dyn Future<Output = RedisResult<Value>> + Send + 'a>> {
        let mut connection = self.clone();
        Box::pin(async move { command.query_async(&mut connection).await })
    }
}

/// How a connection is kept: commands are small and follow each other, so none waits for another's acknowledgement; and a peer that
/// is silently gone is found out where the system can do that, not after its quarter of an hour.
fn tcp(options: &RedisOptions) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(options.response_timeout.saturating_mul(2));
    #[cfg(not(target_os = "linux"))]
    let _ = options;
    settings
}

pub(crate) struct Connection {
    inner: Box<dyn Transport>,
    /// When a connection to what was no master any more was last given up; `None` for a connection that is not ours to close.
    renewed: Option<Mutex<Option<Instant>>>,
}

impl Connection {
    pub(crate) async fn single(url: &str, options: &RedisOptions) -> Result<Self, ConnectError> {
        let info = url.into_connection_info().map_err(ConnectError::unreachable)?;
        let client = Client::open(info.set_tcp_settings(tcp(options))).map_err(ConnectError::unreachable)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(options.response_timeout))
            .set_connection_timeout(Some(options.connection_timeout))
            .set_min_delay(PAUSE)
            .set_max_delay(LONGEST_PAUSE)
            .set_number_of_retries(ATTEMPTS);
        let manager = ConnectionManager::new_with_config(client, config).await.map_err(ConnectError::unreachable)?;
        Ok(Self { inner: Box::new(manager), renewed: Some(Mutex::new(None)) })
    }

    pub(crate) async fn cluster(urls: Vec<String>, options: &RedisOptions) -> Result<Self, ConnectError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let client = ClusterClientBuilder::new(urls)
            .response_timeout(options.response_timeout)
            .connection_timeout(options.connection_timeout)
            .tcp_settings(tcp(options))
            .min_retry_wait(millis(PAUSE))
            .max_retry_wait(millis(LONGEST_PAUSE))
            .retries(u32::try_from(ATTEMPTS).unwrap_or(u32::MAX))
            .build()
            .map_err(ConnectError::unreachable)?;
        let connection = client.get_async_connection().await.map_err(ConnectError::unreachable)?;
        Ok(Self::other(connection))
    }

    pub(crate) fn other<C>(connection: C) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        Self { inner: Box::new(connection), renewed: None }
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.inner.send(command).await
    }

    /// Gives up a connection to a server that is no master any more: the next one may lead to the one that is. Without that,
    /// the connection would stay with the old one for ever. (A cluster's connection finds the new master by itself.)
    pub(crate) async fn renew(&self) {
        let Some(renewed) = &self.renewed else { return };
        {
            // Many calls notice it at once, and the first one's new connection is not to be closed by the next.
            let mut last = renewed.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|last| last.elapsed() < LONGEST_PAUSE) {
                return;
            }
            *last = Some(Instant::now());
        }
        // The server closes the connection; whether its answer comes does not matter.
        drop(self.send(&redis::cmd("QUIT")).await);
    }
}
