//! Options as data, for a configuration file.

use std::time::Duration;

use serde::Deserialize;
use tower_chat_history_core::config::{ConfigError, Secret};

use crate::{error::OpenError, options::RedisOptions};

/// The settings of a [`RedisStore`](crate::RedisStore): its addresses and its [options](RedisOptions).
///
/// ```no_run
/// use tower_chat_history_core::config::read;
/// use tower_chat_history_redis::RedisConfig;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = serde_json::json!({"url": "redis://127.0.0.1/", "prefix": "shop:"});
/// let config: RedisConfig = read(settings)?;
/// let options = config.options()?;
/// let store = match &config.url {
///     Some(url) => options.connect(url.expose()).await?,
///     None => options.connect_cluster(config.cluster_urls.iter().map(|url| url.expose())).await?,
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisConfig {
    /// The address of a single server, which may contain a password.
    pub url: Option<Secret>,
    /// The addresses of nodes of a Cluster, which may contain passwords. Set either these or `url`.
    pub cluster_urls: Vec<Secret>,
    /// [`RedisOptions::prefix`].
    pub prefix: Option<String>,
    /// [`RedisOptions::expire_after`].
    pub expire_after_ms: Option<u64>,
    /// [`RedisOptions::response_timeout`].
    pub response_timeout_ms: Option<u64>,
    /// [`RedisOptions::connection_timeout`].
    pub connection_timeout_ms: Option<u64>,
    /// [`RedisOptions::retry_for`].
    pub retry_for_ms: Option<u64>,
    /// [`RedisOptions::require_noeviction`].
    pub require_noeviction: Option<bool>,
}

impl RedisConfig {
    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address, if there are both kinds of addresses, or if an option is out of range.
    pub fn options(&self) -> Result<RedisOptions, ConfigError> {
        let reason = "either `url` or `cluster_urls` must be set";
        ConfigError::unless(self.url.is_some() == self.cluster_urls.is_empty(), "url", reason)?;
        let mut options = RedisOptions::new();
        if let Some(prefix) = &self.prefix {
            options = options.prefix(prefix);
        }
        if let Some(time) = self.expire_after_ms {
            options = options.expire_after(Duration::from_millis(time));
        }
        if let Some(timeout) = self.response_timeout_ms {
            ConfigError::unless(timeout > 0, "response_timeout_ms", "it must be at least 1")?;
            options = options.response_timeout(Duration::from_millis(timeout));
        }
        if let Some(timeout) = self.connection_timeout_ms {
            ConfigError::unless(timeout > 0, "connection_timeout_ms", "it must be at least 1")?;
            options = options.connection_timeout(Duration::from_millis(timeout));
        }
        if let Some(time) = self.retry_for_ms {
            options = options.retry_for(Duration::from_millis(time));
        }
        if let Some(require) = self.require_noeviction {
            options = options.require_noeviction(require);
        }
        options.check().map_err(|error| match error {
            OpenError::Prefix => {
                let most = RedisOptions::MAX_PREFIX;
                ConfigError::new("prefix", format!("it must have at most {most} visible ASCII characters, no braces"))
            }
            _ => ConfigError::new("expire_after_ms", "it must be from 1 ms to 100 years"),
        })?;
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::read;

    use super::*;

    fn options(mut settings: Value) -> Result<RedisOptions, ConfigError> {
        settings["url"] = json!("redis://:opensesame@localhost/");
        let config: RedisConfig = read(settings)?;
        assert!(!format!("{config:?}").contains("opensesame"), "{config:?}");
        config.options()
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        let built = options(json!({})).unwrap();
        assert_eq!(format!("{built:?}"), format!("{:?}", RedisOptions::new()));
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
        for (settings, path) in [
            (json!({"prefix": "{shop}"}), "prefix"),
            (json!({"expire_after_ms": 0}), "expire_after_ms"),
            (json!({"response_timeout_ms": 0}), "response_timeout_ms"),
            (json!({"connection_timeout_ms": 0}), "connection_timeout_ms"),
            (json!({"retry_for_ms": -1}), "retry_for_ms"),
            (json!({"cluster_urls": ["redis://node/"]}), "url"),
        ] {
            assert_eq!(options(settings).unwrap_err().path, path);
        }
        for (settings, is_valid) in [(json!({}), false), (json!({"cluster_urls": ["redis://node/"]}), true)] {
            assert_eq!(read::<RedisConfig, _>(settings).unwrap().options().is_ok(), is_valid);
        }
    }
}
