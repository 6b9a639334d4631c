//! Settings that must not be shown.

use std::fmt;

use serde::Deserialize;

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
