//! Options as data, for a configuration file.

use std::time::Duration;

use serde::Deserialize;
use tower_chat_history_core::config::{ConfigError, Secret};

use crate::{open::is_plain_name, options::PostgresOptions};

/// The settings of a [`PostgresStore`](crate::PostgresStore): its address and its [options](PostgresOptions).
///
/// ```no_run
/// use tower_chat_history_core::config::read;
/// use tower_chat_history_postgres::PostgresConfig;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = serde_json::json!({"url": "postgres://chat@db.internal/app", "connections": 16});
/// let config: PostgresConfig = read(settings)?;
/// let store = config.options()?.connect(config.url.expose()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// The address, which may contain a password.
    pub url: Secret,
    /// [`PostgresOptions::schema`].
    #[serde(default)]
    pub schema: Option<String>,
    /// [`PostgresOptions::schema_owner`].
    #[serde(default)]
    pub schema_owner: Option<String>,
    /// [`PostgresOptions::create_schema`].
    #[serde(default)]
    pub create_schema: Option<bool>,
    /// [`PostgresOptions::connections`].
    #[serde(default)]
    pub connections: Option<u32>,
    /// [`PostgresOptions::pool_timeout`].
    #[serde(default)]
    pub pool_timeout_ms: Option<u64>,
    /// [`PostgresOptions::retry_for`].
    #[serde(default)]
    pub retry_for_ms: Option<u64>,
    /// [`PostgresOptions::prepare`].
    #[serde(default)]
    pub prepare: Option<bool>,
}

impl PostgresConfig {
    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is empty, if the name of the schema is not valid, or if an option is out of
    /// range.
    pub fn options(&self) -> Result<PostgresOptions, ConfigError> {
        ConfigError::unless(!self.url.expose().is_empty(), "url", "it must not be empty")?;
        let mut options = PostgresOptions::new();
        if let Some(schema) = &self.schema {
            let reason = "it must have 1 to 63 characters of a-z, 0-9 and _, must not start with a digit or `pg_`, and \
                          must not be `information_schema`";
            ConfigError::unless(is_plain_name(schema), "schema", reason)?;
            options = options.schema(schema);
        }
        if let Some(owner) = &self.schema_owner {
            options = options.schema_owner(owner);
        }
        if let Some(create) = self.create_schema {
            options = options.create_schema(create);
        }
        if let Some(connections) = self.connections {
            let (connections, most) = (connections as usize, PostgresOptions::MAX_CONNECTIONS);
            let reason = format!("it must be from 1 to {most}");
            ConfigError::unless((1..=most).contains(&connections), "connections", reason)?;
            options = options.connections(connections);
        }
        if let Some(timeout) = self.pool_timeout_ms {
            ConfigError::unless(timeout > 0, "pool_timeout_ms", "it must be at least 1")?;
            options = options.pool_timeout(Duration::from_millis(timeout));
        }
        if let Some(time) = self.retry_for_ms {
            options = options.retry_for(Duration::from_millis(time));
        }
        if let Some(prepare) = self.prepare {
            options = options.prepare(prepare);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::read;

    use super::*;

    fn options(mut settings: Value) -> Result<PostgresOptions, ConfigError> {
        settings["url"] = json!("postgres://chat:opensesame@db/app");
        let config: PostgresConfig = read(settings)?;
        assert!(!format!("{config:?}").contains("opensesame"), "{config:?}");
        config.options()
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        let built = options(json!({})).unwrap();
        assert_eq!(format!("{built:?}"), format!("{:?}", PostgresOptions::new()));
    }

    #[test]
    fn all_settings_are_used() {
        let settings = json!({
            "schema": "s", "schema_owner": "o", "create_schema": false, "connections": 3, "pool_timeout_ms": 20,
            "retry_for_ms": 30, "prepare": false
        });
        let expected = PostgresOptions::new()
            .schema("s")
            .schema_owner("o")
            .create_schema(false)
            .connections(3)
            .pool_timeout(Duration::from_millis(20))
            .retry_for(Duration::from_millis(30))
            .prepare(false);
        assert_eq!(format!("{:?}", options(settings).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        for (settings, path) in [
            (json!({"schema": "Upper"}), "schema"),
            (json!({"connections": 0}), "connections"),
            (json!({"connections": 262_144}), "connections"),
            (json!({"pool_timeout_ms": 0}), "pool_timeout_ms"),
            (json!({"retry_for_ms": "1 s"}), "retry_for_ms"),
            (json!({"retries": 1}), "retries"),
        ] {
            assert_eq!(options(settings).unwrap_err().path, path);
        }
        assert_eq!(read::<PostgresConfig, _>(json!({})).unwrap_err().to_string(), "missing field `url`");
        let empty: PostgresConfig = read(json!({"url": ""})).unwrap();
        assert_eq!(empty.options().unwrap_err().path, "url");
    }
}
