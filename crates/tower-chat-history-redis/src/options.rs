//! The options of a store.

#[cfg(feature = "rustls")]
use std::fmt;
use std::time::Duration;

#[cfg(feature = "rustls")]
use redis::{ClientTlsConfig, TlsCertificates};
#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

/// Options of a [`RedisStore`](crate::RedisStore). The defaults suit most services.
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
///
/// With the feature `config`, a configuration file can have the options. Their names are those of the methods. Those of
/// times end in `_ms`, such as `retry_for_ms`. Certificates are set in code.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct RedisOptions {
    #[cfg_attr(feature = "config", serde(deserialize_with = "prefix"))]
    pub(crate) prefix: String,
    #[cfg_attr(feature = "config", serde(rename = "expire_after_ms", deserialize_with = "expire_after"))]
    pub(crate) expire_after: Option<Duration>,
    #[cfg_attr(feature = "config", serde(rename = "response_timeout_ms", deserialize_with = "field::timeout"))]
    pub(crate) response_timeout: Duration,
    #[cfg_attr(
        feature = "config",
        serde(rename = "connection_timeout_ms", deserialize_with = "field::timeout_or_none")
    )]
    pub(crate) connection_timeout: Option<Duration>,
    #[cfg_attr(
        feature = "config",
        serde(rename = "retry_for_ms", deserialize_with = "field::millis::<_, 0, { u64::MAX }>")
    )]
    pub(crate) retry_for: Duration,
    pub(crate) require_noeviction: bool,
    #[cfg(feature = "rustls")]
    #[cfg_attr(feature = "config", serde(skip))]
    pub(crate) tls: Tls,
}

impl RedisOptions {
    /// The maximum length of the prefix, in bytes.
    pub const MAX_PREFIX: usize = 128;

    /// The range of [`expire_after`](Self::expire_after): from a millisecond to a hundred years.
    pub const EXPIRE_AFTER: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(100 * 365 * 24 * 3_600);

    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            prefix: "chat:".into(),
            expire_after: None,
            response_timeout: Duration::from_secs(2),
            connection_timeout: None,
            retry_for: Duration::from_secs(3),
            require_noeviction: false,
            #[cfg(feature = "rustls")]
            tls: Tls::default(),
        }
    }

    /// Sets the prefix of all keys. Stores with different prefixes have different conversations. The default is
    /// `chat:`.
    ///
    /// A prefix has up to [`MAX_PREFIX`](Self::MAX_PREFIX) bytes of visible ASCII without braces.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time after which the server removes a conversation, counted from the conversation's last append. The
    /// default is `None`: never.
    ///
    /// The time is in [`EXPIRE_AFTER`](Self::EXPIRE_AFTER), in whole milliseconds. The conversation is removed as a
    /// whole, and its incarnation has ended, as after a deletion.
    ///
    /// If the option changes, it applies to a conversation from its next append on.
    #[must_use]
    pub fn expire_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.expire_after = time.into();
        self
    }

    /// Sets the time limit for a response to one command. The default is two seconds.
    ///
    /// On Linux, the system closes a connection to a silent peer after twice that time, but after 24 days at most.
    #[must_use]
    pub const fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets the time limit for one attempt to connect. The default is two seconds for a single server, and half a
    /// second for a node of a Cluster. Calls to the other nodes may wait for such an attempt.
    #[must_use]
    pub const fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = Some(timeout);
        self
    }

    /// Sets the time for which a call is repeated if the server is unreachable, loading, or being replaced. The default
    /// is three seconds. Zero makes one attempt.
    ///
    /// The last attempt begins within that time, and ends within one [response timeout](Self::response_timeout), even
    /// if there is no connection. The sum of the two is the time limit of a load, and of an append. (A load takes up to
    /// twice as long if its window is [large](crate::guide::failures#large-calls). An append takes longer if it first
    /// removes the rest of an interrupted truncation or prune.)
    ///
    /// A large call waits for other large calls within that time.
    ///
    /// Opening a store takes at most this time plus one [connection timeout](Self::connection_timeout), also for an
    /// existing connection. This includes reading the server's eviction policy.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets whether to refuse a server that evicts keys when its memory is full, or that does not report its eviction
    /// policy. The default is `false`: a warning is logged.
    #[must_use]
    pub const fn require_noeviction(mut self, require: bool) -> Self {
        self.require_noeviction = require;
        self
    }

    /// Sets the certificates, in PEM, of the authorities that may sign the server's certificate. The default is the
    /// system's roots.
    ///
    /// They apply to `rediss://` addresses. Connecting fails if they cannot be read, or if the address does not use
    /// TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.roots = Some(pem.into());
        self
    }

    /// Sets the client's certificate and its private key, both in PEM, for a server that requests them. The default is
    /// none.
    ///
    /// They apply to `rediss://` addresses. Connecting fails if they cannot be read, or if the address does not use
    /// TLS.
    #[cfg(feature = "rustls")]
    #[must_use]
    pub fn client_certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.identity = Some((certificate.into(), key.into()));
        self
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Certificates and a key in PEM. By default, the system's roots are trusted and there is no client certificate.
#[cfg(feature = "rustls")]
#[derive(Clone, Default)]
pub(crate) struct Tls {
    roots: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

#[cfg(feature = "rustls")]
impl Tls {
    /// Returns the certificates for redis-rs, or `None` if there are none.
    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        if self.roots.is_none() && self.identity.is_none() {
            return None;
        }

        let identity = self.identity.clone();
        let client_tls = identity.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Some(TlsCertificates { client_tls, root_cert: self.roots.clone() })
    }
}

/// The private key is not shown.
#[cfg(feature = "rustls")]
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("roots", &self.roots.is_some()).field("identity", &self.identity.is_some()).finish()
    }
}

/// Returns `true` if all keys with this prefix have the hash tag of their conversation.
pub(crate) fn is_legal_prefix(prefix: &str) -> bool {
    prefix.len() <= RedisOptions::MAX_PREFIX
        && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}'))
}

#[cfg(feature = "config")]
fn prefix<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let prefix = String::deserialize(deserializer)?;
    if is_legal_prefix(&prefix) {
        return Ok(prefix);
    }

    let most = RedisOptions::MAX_PREFIX;
    Err(D::Error::custom(format!("invalid prefix, expected at most {most} visible ASCII characters without braces")))
}

#[cfg(feature = "config")]
fn expire_after<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    const MAX: u64 = RedisOptions::EXPIRE_AFTER.end().as_secs() * 1_000;
    field::millis::<D, 1, MAX>(deserializer).map(Some)
}

#[cfg(feature = "config")]
#[cfg(test)]
mod config {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::{ConfigError, read};

    use super::*;

    fn options(settings: Value) -> Result<RedisOptions, ConfigError> {
        read(settings)
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        assert_eq!(format!("{:?}", options(json!({})).unwrap()), format!("{:?}", RedisOptions::new()));
    }

    #[test]
    fn all_settings_are_used() {
        let settings = json!({
            "prefix": "shop:", "expire_after_ms": 10, "response_timeout_ms": 20, "connection_timeout_ms": 30,
            "retry_for_ms": 40, "require_noeviction": true
        });
        let [ten, twenty, thirty, forty] = [10, 20, 30, 40].map(Duration::from_millis);
        let expected = RedisOptions::new()
            .prefix("shop:")
            .expire_after(ten)
            .response_timeout(twenty)
            .connection_timeout(thirty)
            .retry_for(forty)
            .require_noeviction(true);
        assert_eq!(format!("{:?}", options(settings).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        let more_than_the_largest = RedisOptions::EXPIRE_AFTER.end().as_secs() * 1_000 + 1;
        for (settings, path) in [
            (json!({"prefix": "{shop}"}), "prefix"),
            (json!({"expire_after_ms": 0}), "expire_after_ms"),
            (json!({"expire_after_ms": more_than_the_largest}), "expire_after_ms"),
            (json!({"response_timeout_ms": 0}), "response_timeout_ms"),
            (json!({"connection_timeout_ms": 0}), "connection_timeout_ms"),
            (json!({"retry_for_ms": -1}), "retry_for_ms"),
            (json!({"url": "redis://node/"}), "url"),
        ] {
            assert_eq!(options(settings).unwrap_err().path, path);
        }
        options(json!({"expire_after_ms": more_than_the_largest - 1})).unwrap();
    }
}
