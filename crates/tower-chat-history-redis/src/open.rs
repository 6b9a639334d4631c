//! Opening a store, which checks that the server evicts nothing.

use std::{io, time::Duration};

use redis::{RedisError, Value, aio::ConnectionLike};
use tokio::time::timeout;

use crate::{
    connection::{self, CLUSTER_CONNECTION_TIMEOUT, CONNECTION_TIMEOUT, Connection},
    error::{Failure, OpenError},
    options::{RedisOptions, is_legal_prefix},
    reply::text,
    store::RedisStore,
};

/// The policy that evicts nothing.
const NOEVICTION: &str = "noeviction";

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
            let policy = eviction_policy(&connection).await.map_err(OpenError::unreachable)?;
            Ok((connection, policy))
        };

        let time = self.retry_for.saturating_add(self.connection_timeout.unwrap_or(connection_timeout));
        let opened = timeout(time, opening).await;
        let (connection, policy) = opened.unwrap_or_else(|elapsed| {
            let elapsed = io::Error::from(elapsed);
            Err(OpenError::unreachable(elapsed.into()))
        })?;

        check_policy(policy, self.require_noeviction)?;
        Ok(RedisStore::new(connection, self.clone()))
    }
}

/// Returns the server's eviction policy, or `None` if the server does not report it. If the nodes of a Cluster differ,
/// it is the first one that evicts.
///
/// This is also the first command that is sent on a new connection. If the server requires a password and the address
/// has none, this command is therefore the first one that the server refuses.
async fn eviction_policy(connection: &Connection) -> Result<Option<String>, RedisError> {
    let mut info = redis::cmd("INFO");
    info.arg("memory");
    let mut config = redis::cmd("CONFIG");
    config.arg("GET").arg("maxmemory-policy");

    for command in [info, config] {
        match connection.send(&command).await {
            Ok(answer) => {
                let mut policies = Vec::new();
                find_policies(&answer, &mut policies);
                if let Some(policy) = policies.iter().find(|policy| *policy != NOEVICTION).or(policies.first()) {
                    return Ok(Some(policy.clone()));
                }
            }
            Err(error) => {
                let failure = Failure(error.clone());
                // If the user may not run this command, opening still succeeds. If the server is unreachable or refuses
                // the credentials, opening fails.
                if failure.is_transient() || failure.credentials().is_some() {
                    return Err(error);
                }
            }
        }
    }
    Ok(None)
}

/// Logs a warning if the server evicts keys, or refuses the server.
fn check_policy(policy: Option<String>, require_noeviction: bool) -> Result<(), OpenError> {
    match policy {
        Some(policy) if policy == NOEVICTION => {}
        policy if require_noeviction => {
            return Err(OpenError::Evicts { policy: policy.unwrap_or_else(|| "unknown".into()) });
        }
        Some(policy) => tracing::warn!(
            maxmemory_policy = policy,
            "this server evicts keys, and so conversations, when its memory is full: set maxmemory-policy to noeviction"
        ),
        None => tracing::warn!("this server does not report whether it evicts keys when its memory is full"),
    }
    Ok(())
}

/// Collects the policies in a response: `maxmemory_policy:…` in the text of `INFO`, or the value of `maxmemory-policy`.
fn find_policies(answer: &Value, policies: &mut Vec<String>) {
    match answer {
        Value::Array(items) | Value::Set(items) => {
            if let [name, value] = items.as_slice()
                && text(name).is_some_and(|name| name == "maxmemory-policy")
            {
                policies.extend(text(value));
            }
            for item in items {
                find_policies(item, policies);
            }
        }
        Value::Map(pairs) => {
            for (name, value) in pairs {
                if text(name).is_some_and(|name| name == "maxmemory-policy") {
                    policies.extend(text(value));
                }
                find_policies(value, policies);
            }
        }
        other => {
            for line in text(other).unwrap_or_default().lines() {
                if let Some(policy) = line.strip_prefix("maxmemory_policy:") {
                    policies.push(policy.trim().to_owned());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

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

    #[test]
    fn every_form_of_answer_is_understood() {
        let info = bulk("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\nx:1\r\n");
        let other = bulk("maxmemory_policy:allkeys-lru\r\n");
        let config = Value::Array(vec![bulk("maxmemory-policy"), bulk("volatile-ttl")]);
        let map = Value::Map(vec![(bulk("maxmemory-policy"), bulk("volatile-ttl"))]);
        let nodes = Value::Map(vec![(bulk("a:1"), info.clone()), (bulk("b:2"), other)]);
        for (answer, expected) in [
            (info, vec!["noeviction"]),
            (config, vec!["volatile-ttl"]),
            (map, vec!["volatile-ttl"]),
            (nodes, vec!["noeviction", "allkeys-lru"]),
            (Value::Nil, vec![]),
        ] {
            let mut found = Vec::new();
            find_policies(&answer, &mut found);
            assert_eq!(found, expected, "{answer:?}");
        }
    }

    #[test]
    fn only_a_store_that_requires_it_refuses_eviction() {
        for evicts in [Some("allkeys-lru".to_owned()), None] {
            check_policy(evicts.clone(), false).unwrap();
            assert!(matches!(check_policy(evicts, true), Err(OpenError::Evicts { .. })));
        }
        check_policy(Some(NOEVICTION.into()), true).unwrap();
    }
}
