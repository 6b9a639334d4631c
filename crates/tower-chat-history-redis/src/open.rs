//! Opening a store.

use std::time::Duration;

use redis::aio::ConnectionLike;

use crate::{
    connection::{self, CLUSTER_CONNECTION_TIMEOUT, CONNECTION_TIMEOUT, Connection},
    error::OpenError,
    eviction,
    options::{RedisOptions, is_legal_prefix},
    store::RedisStore,
};

impl RedisStore {
    /// Connects to a single server, with the default [options](RedisOptions).
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect(url: impl AsRef<str> + Send) -> Result<Self, OpenError> {
        RedisOptions::new().connect(url).await
    }

    /// Connects to a Cluster by the addresses of some of its nodes, with the default [options](RedisOptions).
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect_cluster<U: AsRef<str>>(urls: impl IntoIterator<Item = U> + Send) -> Result<Self, OpenError> {
        RedisOptions::new().connect_cluster(urls).await
    }
}

impl RedisOptions {
    /// Connects to a single server.
    ///
    /// The address is `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS (with the feature
    /// `rustls`), or `unix:///path`.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect(self, url: impl AsRef<str> + Send) -> Result<RedisStore, OpenError> {
        self.check()?;
        let opened = self.open(Connection::single(url.as_ref(), &self), CONNECTION_TIMEOUT).await;
        opened.map_err(|error| error.at(connection::server_address(url.as_ref())))
    }

    /// Connects to a Cluster by the addresses of some of its nodes. The others are discovered.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn connect_cluster<U: AsRef<str>>(
        self,
        urls: impl IntoIterator<Item = U> + Send,
    ) -> Result<RedisStore, OpenError> {
        self.check()?;
        let urls: Vec<String> = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        let servers: Vec<String> = urls.iter().filter_map(|url| connection::server_address(url)).collect();
        let opened = self.open(Connection::cluster(urls, &self), CLUSTER_CONNECTION_TIMEOUT).await;
        opened.map_err(|error| error.at((!servers.is_empty()).then(|| servers.join(", "))))
    }

    /// Uses an existing connection, which must reconnect by itself: a `ConnectionManager` or a Cluster's connection.
    ///
    /// The connection's own timeouts and retries apply, within the time limits of these options.
    ///
    /// # Errors
    ///
    /// Returns the errors listed at [`OpenError`].
    pub async fn over<C>(self, connection: C) -> Result<RedisStore, OpenError>
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        self.check()?;
        self.open(async { Ok(Connection::other(connection)) }, CONNECTION_TIMEOUT).await
    }

    pub(crate) fn check(&self) -> Result<(), OpenError> {
        if !is_legal_prefix(&self.prefix) {
            return Err(OpenError::Prefix);
        }
        match self.expire_after {
            Some(time) if !Self::EXPIRE_AFTER.contains(&time) => Err(OpenError::ExpireAfter { time }),
            _ => Ok(()),
        }
    }

    /// Creates the store once the server has reported its eviction policy, within the time limit for opening.
    /// `connection_timeout` applies if the options have none.
    async fn open(
        &self,
        connecting: impl Future<Output = Result<Connection, OpenError>>,
        connection_timeout: Duration,
    ) -> Result<RedisStore, OpenError> {
        let opening = async {
            let connection = connecting.await?;
            let policy = eviction::policy(&connection).await.map_err(OpenError::unreachable)?;
            Ok((connection, policy))
        };
        let time = self.retry_for.saturating_add(self.connection_timeout.unwrap_or(connection_timeout));
        let opened = tokio::time::timeout(time, opening).await;
        let (connection, policy) =
            opened.unwrap_or_else(|elapsed| Err(OpenError::unreachable(std::io::Error::from(elapsed).into())))?;
        eviction::check_policy(policy, self.require_noeviction)?;
        Ok(RedisStore::new(connection, self.clone()))
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
