//! Options as data, for a configuration file.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;
use tower_chat_history_core::config::ConfigError;

use crate::{options::SqliteOptions, settings::Synchronous};

/// The settings of a [`SqliteStore`](crate::SqliteStore): its file and its [options](SqliteOptions).
///
/// ```
/// use tower_chat_history_core::config::read;
/// use tower_chat_history_sqlite::SqliteConfig;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("chat.db");
/// let config: SqliteConfig = read(serde_json::json!({"path": path, "busy_timeout_ms": 1_000}))?;
/// let store = config.options()?.open(&config.path).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The file.
    pub path: PathBuf,
    /// [`SqliteOptions::synchronous`].
    #[serde(default)]
    pub synchronous: Option<SynchronousConfig>,
    /// [`SqliteOptions::readers`].
    #[serde(default)]
    pub readers: Option<u32>,
    /// [`SqliteOptions::busy_timeout`].
    #[serde(default)]
    pub busy_timeout_ms: Option<u64>,
}

/// The settings of [`Synchronous`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SynchronousConfig {
    /// [`Synchronous::Full`].
    Full,
    /// [`Synchronous::Normal`].
    Normal,
}

impl SqliteConfig {
    /// Creates the settings of a store in this file, with the default options.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), synchronous: None, readers: None, busy_timeout_ms: None }
    }

    /// Builds the options.
    ///
    /// # Errors
    ///
    /// Returns an error if the path does not name a file, or if an option is out of range.
    pub fn options(&self) -> Result<SqliteOptions, ConfigError> {
        let is_file = !self.path.as_os_str().is_empty() && self.path.as_os_str() != ":memory:";
        ConfigError::unless(is_file, "path", "it must name a file")?;
        let mut options = SqliteOptions::new();
        if let Some(synchronous) = self.synchronous {
            options = options.synchronous(match synchronous {
                SynchronousConfig::Full => Synchronous::Full,
                SynchronousConfig::Normal => Synchronous::Normal,
            });
        }
        if let Some(readers) = self.readers {
            let (readers, most) = (readers as usize, SqliteOptions::MAX_READERS);
            ConfigError::unless((1..=most).contains(&readers), "readers", format!("it must be from 1 to {most}"))?;
            options = options.readers(readers);
        }
        if let Some(timeout) = self.busy_timeout_ms {
            let (timeout, most) = (Duration::from_millis(timeout), SqliteOptions::MAX_BUSY_TIMEOUT);
            let reason = format!("it must be at most {}", most.as_millis());
            ConfigError::unless(timeout <= most, "busy_timeout_ms", reason)?;
            options = options.busy_timeout(timeout);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tower_chat_history_core::config::read;

    use super::*;

    fn options(settings: Value) -> Result<SqliteOptions, ConfigError> {
        read::<SqliteConfig, _>(settings)?.options()
    }

    #[test]
    fn missing_settings_have_the_default_of_the_options() {
        let built = options(json!({"path": "chat.db"})).unwrap();
        assert_eq!(format!("{built:?}"), format!("{:?}", SqliteOptions::new()));
    }

    #[test]
    fn all_settings_are_used() {
        let settings = json!({"path": "chat.db", "synchronous": "normal", "readers": 3, "busy_timeout_ms": 250});
        let expected =
            SqliteOptions::new().synchronous(Synchronous::Normal).readers(3).busy_timeout(Duration::from_millis(250));
        assert_eq!(format!("{:?}", options(settings).unwrap()), format!("{expected:?}"));
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        for (settings, error) in [
            (json!({}), "missing field `path`"),
            (json!({"path": ""}), "path: it must name a file"),
            (json!({"path": "a", "readers": 0}), "readers: it must be from 1 to 64"),
            (json!({"path": "a", "readers": 65}), "readers: it must be from 1 to 64"),
            (json!({"path": "a", "busy_timeout_ms": 3_600_001}), "busy_timeout_ms: it must be at most 3600000"),
            (json!({"path": "a", "synchronous": "off"}), "synchronous: expected `full` or `normal`"),
        ] {
            assert_eq!(options(settings).unwrap_err().to_string(), error);
        }
    }
}
