//! Settings as data: reading them from any format of `serde`, and the errors of settings that cannot be used.
//!
//! The options of this library's crates are data of serde behind their features `config`. A program puts those that it
//! needs into a struct of its own, and [reads](read) it from a file.
//!
//! Names of settings end in their unit: `_ms` for milliseconds, `_bytes`, `_tokens`, `_percent`. A setting that is
//! missing has the default of the option. An unknown name is an error. So is a name that is set twice, and a value that
//! would set nothing, such as `null` or `inf`.

pub mod field;
mod read;

use std::fmt;

use serde::Deserialize;

pub use self::read::read;

/// The error for a setting that cannot be read or used. It contains no values of settings except numbers, so it never
/// shows a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The path of the setting, such as `context.budget.window.tokens`. It is empty if all settings together are meant.
    pub path: String,
    /// The reason why it cannot be used, for the person who wrote the setting.
    pub reason: String,
}

impl ConfigError {
    /// Creates the error of the setting at this path.
    #[must_use]
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }

    /// Returns `Ok` if the condition holds, and otherwise the error of the setting at this path.
    ///
    /// # Errors
    ///
    /// Returns an error if the condition does not hold.
    pub fn unless(holds: bool, path: &str, reason: impl Into<String>) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(path, reason)) }
    }

    /// Returns the error with a path that begins with that of the group to which the setting belongs.
    ///
    /// ```
    /// use tower_chat_history_core::config::ConfigError;
    ///
    /// let error = ConfigError::new("readers", "it must be at least 1").within("sqlite").within("store");
    /// assert_eq!(error.to_string(), "store.sqlite.readers: it must be at least 1");
    /// ```
    #[must_use]
    pub fn within(mut self, group: &str) -> Self {
        let separator = if self.path.is_empty() || group.is_empty() { "" } else { "." };
        self.path.insert_str(0, separator);
        self.path.insert_str(0, group);
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ConfigError {}

/// A setting that is not shown, such as an address with a password. Its `Debug` output has no text.
///
/// ```
/// use tower_chat_history_core::config::Secret;
///
/// let url = Secret::new("redis://:opensesame@localhost/");
/// assert_eq!(format!("{url:?}"), "Secret");
/// assert!(url.expose().contains("opensesame"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from its text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
