//! The error for settings that cannot be used.

use std::fmt;

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
