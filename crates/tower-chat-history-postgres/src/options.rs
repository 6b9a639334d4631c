//! The options of a store.

use std::time::Duration;

#[cfg(feature = "config")]
use tower_chat_history_core::config::field;

/// Options of a [`PostgresStore`](crate::PostgresStore). The defaults suit most services.
///
/// ```no_run
/// use tower_chat_history_postgres::PostgresOptions;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let options = PostgresOptions::new().schema("support_chat").connections(16);
/// let store = options.connect("postgres://chat@db.internal/app").await?;
/// # Ok(())
/// # }
/// ```
///
/// With the feature `config`, a configuration file can have the options. Their names are those of the methods. Those of
/// times end in `_ms`, such as `retry_for_ms`.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct PostgresOptions {
    #[cfg_attr(feature = "config", serde(deserialize_with = "schema"))]
    pub(crate) schema: String,
    pub(crate) schema_owner: Option<String>,
    pub(crate) create_schema: bool,
    #[cfg_attr(feature = "config", serde(deserialize_with = "field::number::<_, _, 1, 262_143>"))]
    pub(crate) connections: usize,
    #[cfg_attr(feature = "config", serde(rename = "pool_timeout_ms", deserialize_with = "field::timeout"))]
    pub(crate) pool_timeout: Duration,
    #[cfg_attr(
        feature = "config",
        serde(rename = "retry_for_ms", deserialize_with = "field::millis::<_, 0, { u64::MAX }>")
    )]
    pub(crate) retry_for: Duration,
    pub(crate) prepare: bool,
}

impl PostgresOptions {
    /// The largest number of connections in the store's own pool. It is the largest `max_connections` of a server.
    pub const MAX_CONNECTIONS: usize = 262_143;

    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "chat_history".into(),
            schema_owner: None,
            create_schema: true,
            connections: 10,
            pool_timeout: Duration::from_secs(5),
            retry_for: Duration::from_secs(1),
            prepare: true,
        }
    }

    /// Sets the schema of all tables and functions. It is [created](Self::create_schema) if it does not exist. The
    /// default is `chat_history`.
    ///
    /// A name has 1 to 63 characters of a-z, 0-9 and _. It does not start with a digit or `pg_`, and is not
    /// `information_schema`.
    ///
    /// An existing schema must belong to the current role, to a role that it is a member of, or to a superuser.
    /// Otherwise, name its owner with [`schema_owner`](Self::schema_owner).
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Trusts the role of this name as the owner of the schema, and of the store's tables and functions in it.
    ///
    /// Set it if the schema is created by a role that is neither the application's role nor one of which the
    /// application's role is a member. The default is none.
    ///
    /// The owner is trusted with everything that the application's role may do, in this database and elsewhere on the
    /// server. It may replace the functions in the schema, and these run with the rights of the caller.
    #[must_use]
    pub fn schema_owner(mut self, role: impl Into<String>) -> Self {
        self.schema_owner = Some(role.into());
        self
    }

    /// Creates the schema and the store's tables if they do not exist. If this is `false`,
    /// [`OpenError::NoSchema`](crate::OpenError::NoSchema) is returned instead, so that a mistyped name is noticed. The
    /// default is `true`. The tables of an older version are always migrated.
    #[must_use]
    pub const fn create_schema(mut self, create: bool) -> Self {
        self.create_schema = create;
        self
    }

    /// Sets the largest number of connections in the store's own pool, from 1 to
    /// [`MAX_CONNECTIONS`](Self::MAX_CONNECTIONS). The default is 10.
    ///
    /// Connections are made when they are needed. A few are enough: if none is free, up to 16 loads or appends share a
    /// statement on the next free one.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time limit for waiting for a free connection of the store's own pool. The same limit applies again to
    /// making a new connection. The default is 5 seconds.
    ///
    /// After that time the call fails with [`Unavailable`](tower_chat_history_core::StoreError::Unavailable).
    #[must_use]
    pub const fn pool_timeout(mut self, timeout: Duration) -> Self {
        self.pool_timeout = timeout;
        self
    }

    /// Sets the time for which a call is repeated after transient failures, such as a lost connection, a server that
    /// is starting, or a deadlock. The default is 1 second.
    ///
    /// The first repetition is always made. No repetition begins after 40 seconds. A statement that the server ended
    /// because of a time limit, such as `lock_timeout`, is not repeated.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Sets whether each connection prepares a statement once and keeps it. The default is `true`.
    ///
    /// Set it to `false` with a pooler that gives each transaction another server connection and does not track
    /// prepared statements, such as PgBouncer before 1.21. Statements are then planned at each call.
    #[must_use]
    pub const fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns `true` if a name needs no escaping within quotes and no quotes elsewhere.
pub(crate) fn is_plain_name(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_")
        && name != "information_schema"
}

#[cfg(feature = "config")]
fn schema<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let name = String::deserialize(deserializer)?;
    if is_plain_name(&name) {
        return Ok(name);
    }
    let expected = "1 to 63 characters of a-z, 0-9 and _, no digit or `pg_` at the start, not `information_schema`";
    Err(D::Error::custom(format!("invalid name, expected {expected}")))
}

#[cfg(feature = "config")]
#[cfg(test)]
mod config {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::{ConfigError, read};

    use super::*;

    fn options(settings: Value) -> Result<PostgresOptions, ConfigError> {
        read(settings)
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        assert_eq!(format!("{:?}", options(json!({})).unwrap()), format!("{:?}", PostgresOptions::new()));
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
        let error = options(json!({"schema": "opensesame, expected"})).unwrap_err();
        assert!(error.reason.starts_with("expected 1 to 63 characters of a-z"), "{error}");
    }
}
