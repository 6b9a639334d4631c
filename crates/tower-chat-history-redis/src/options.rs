//! How a store is opened.

use std::time::Duration;

use redis::aio::ConnectionLike;

#[cfg(feature = "rustls")]
use crate::tls::Tls;
use crate::{
    OpenError, RedisStore,
    connection::{self, Connection},
    eviction,
};

/// Options of a [`RedisStore`]. The defaults are right for most services.
///
/// ```no_run
/// use std::time::Duration;
/// use tower_chat_history_redis::RedisOptions;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let month = Duration::from_secs(30 * 24 * 3_600);
/// let options = RedisOptions::new().prefix("shop:").expire_after(month).require_noeviction(true);
/// let store = options.connect("redis://127.0.0.1/").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisOptions {
    pub(crate) prefix: String,
    pub(crate) expire_after: Option<Duration>,
    pub(crate) response_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) retry_for: Duration,
    pub(crate) require_noeviction: bool,
    #[cfg(feature = "rustls")]
    pub(crate) tls: Tls,
}

impl RedisOptions {
    /// The longest prefix, in bytes.
    pub const MAX_PREFIX: usize = 128;
    /// The shortest and the longest time after which conversations may expire: a millisecond and a hundred years.
    pub const EXPIRE_AFTER: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(100 * 365 * 24 * 3_600);

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prefix: "chat:".into(),
            expire_after: None,
            response_timeout: Duration::from_secs(2),
            connection_timeout: Duration::from_secs(2),
            retry_for: Duration::from_secs(3),
            require_noeviction: false,
            #[cfg(feature = "rustls")]
            tls: Tls::default(),
        }
    }

    /// What all keys begin with: stores with different prefixes have different conversations. Up to
    /// [`MAX_PREFIX`](Self::MAX_PREFIX) bytes of visible ASCII without braces. The default is `chat:`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long after its last append a conversation is removed by the server, whole; a time in
    /// [`EXPIRE_AFTER`](Self::EXPIRE_AFTER), in whole milliseconds. The default is `None`: never.
    ///
    /// An append sets the conversation's time anew, also to never; conversations without an append keep the one they have.
    /// Expiry is like deletion: the incarnation has ended.
    #[must_use]
    pub fn expire_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.expire_after = time.into();
        self
    }

    /// Sets how long the server may take to answer one command. On Linux the system gives a silent peer up after twice
    /// that time, but after 24 days at most, which is what it can count. The default is two seconds.
    #[must_use]
    pub const fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// How long one attempt to connect may take. The default is two seconds.
    #[must_use]
    pub const fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// How long a call is tried again when the server cannot be reached, is loading, or is being replaced. The last try begins
    /// within that time, and ends within a [response timeout](Self::response_timeout) after it, also where it waits for a
    /// connection. So loads take no longer than both together, and appends that find nothing to clear away. The default is three
    /// seconds; zero tries once.
    ///
    /// Opening a store takes no longer than this and a [connection timeout](Self::connection_timeout), over a given connection
    /// too: within that time the server must also have said whether it evicts keys.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Whether to refuse a server that evicts keys when its memory is full, or does not say whether it does. The default is
    /// `false`: a warning is logged.
    #[must_use]
    pub const fn require_noeviction(mut self, require: bool) -> Self {
        self.require_noeviction = require;
        self
    }

    /// The certificates, in PEM, of the authorities that the server's must be signed by, for `rediss://` addresses. The default is the
    /// system's roots. Connecting fails where they cannot be read, or the address is one without TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.set_roots(pem.into());
        self
    }

    /// The certificate that this program shows to a server that asks for one, and its key, both in PEM, for `rediss://` addresses. The
    /// default is none. Connecting fails as with the roots.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.set_identity(certificate.into(), key.into());
        self
    }

    /// Connects to a single server: `redis://[user:password@]host[:port][/database]`, `rediss://…` with TLS (by feature), or
    /// `unix:///path`.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    pub async fn connect(self, url: impl AsRef<str> + Send) -> Result<RedisStore, OpenError> {
        self.check()?;
        let opened = self.open(Connection::single(url.as_ref(), &self)).await;
        opened.map_err(|error| error.at(connection::place(url.as_ref())))
    }

    /// Connects to a cluster, of which some nodes are named. The others are found.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    pub async fn connect_cluster<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U> + Send,
    ) -> Result<RedisStore, OpenError> {
        self.check()?;
        let urls: Vec<String> = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        let places: Vec<String> = urls.iter().filter_map(|url| connection::place(url)).collect();
        let opened = self.open(Connection::cluster(urls, &self)).await;
        opened.map_err(|error| error.at((!places.is_empty()).then(|| places.join(", "))))
    }

    /// Uses an existing connection, which must reconnect by itself: a `ConnectionManager` or a cluster's connection. Its
    /// own timeouts and retries apply, and around them those of these options.
    ///
    /// # Errors
    ///
    /// As [`OpenError`] lists.
    pub async fn over<C>(self, connection: C) -> Result<RedisStore, OpenError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.check()?;
        self.open(async { Ok(Connection::other(connection)) }).await
    }

    fn check(&self) -> Result<(), OpenError> {
        let legal = |b: u8| b.is_ascii_graphic() && b != b'{' && b != b'}';
        if self.prefix.len() > Self::MAX_PREFIX || !self.prefix.bytes().all(legal) {
            return Err(OpenError::Prefix);
        }
        match self.expire_after {
            Some(time) if !Self::EXPIRE_AFTER.contains(&time) => Err(OpenError::ExpireAfter { time }),
            _ => Ok(()),
        }
    }

    /// A store, if the server has told its policy before the last attempt to connect must have ended.
    async fn open(
        &self,
        connecting: impl Future<Output = Result<Connection, OpenError>>,
    ) -> Result<RedisStore, OpenError> {
        let opening = async {
            let connection = connecting.await?;
            let policy = eviction::policy(&connection).await.map_err(OpenError::unreachable)?;
            Ok((connection, policy))
        };
        let time = self.retry_for.saturating_add(self.connection_timeout);
        let opened = tokio::time::timeout(time, opening).await;
        let (connection, policy) =
            opened.unwrap_or_else(|elapsed| Err(OpenError::unreachable(std::io::Error::from(elapsed).into())))?;
        eviction::judge(policy, self.require_noeviction)?;
        Ok(RedisStore::new(connection, self.clone()))
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_no_braces() {
        for wrong in ["{", "a}", "a b", "ä", "\n", &"x".repeat(129)] {
            assert!(matches!(RedisOptions::new().prefix(wrong).check(), Err(OpenError::Prefix)), "{wrong}");
        }
        for right in ["", "chat:", &"x".repeat(128)] {
            RedisOptions::new().prefix(right).check().unwrap();
        }
    }

    #[test]
    fn a_time_to_live_is_in_range() {
        for wrong in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
            let error = RedisOptions::new().expire_after(wrong).check().unwrap_err();
            assert!(matches!(error, OpenError::ExpireAfter { time } if time == wrong), "{error}");
        }
        RedisOptions::new().expire_after(Duration::from_millis(1)).check().unwrap();
        RedisOptions::new().expire_after(None).check().unwrap();
    }
}
