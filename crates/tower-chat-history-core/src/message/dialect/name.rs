//! The names of dialects.

use std::{borrow::Cow, fmt, ptr};

use serde::{Deserialize, Serialize};

use super::{ChatCompletions, Dialect, known};

/// The name of a [dialect](Dialect), which every stored exchange has.
///
/// A name has 1 to 64 bytes of visible ASCII. The default is that of [`ChatCompletions`].
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DialectName(Cow<'static, str>);

impl DialectName {
    /// The maximum length of a name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The name of [`ChatCompletions`].
    pub const CHAT_COMPLETIONS: Self = Self(Cow::Borrowed(ChatCompletions::NAME));

    /// Returns the name of a dialect.
    #[must_use]
    pub fn of(dialect: &dyn Dialect) -> Self {
        Self(Cow::Borrowed(dialect.name()))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if this is the given name.
    #[inline]
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        // Most names are the same constant. Its address is compared faster than its text.
        ptr::eq(self.as_str(), name) || self.as_str() == name
    }

    /// Returns `true` if this is the name of chat completions.
    #[must_use]
    pub fn is_chat_completions(&self) -> bool {
        self.0 == ChatCompletions::NAME
    }

    /// Returns `true` if this crate has the dialect. Messages in it have their [index](crate::Index) from the
    /// beginning.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        known(self).is_some()
    }
}

impl Default for DialectName {
    fn default() -> Self {
        Self::CHAT_COMPLETIONS
    }
}

impl fmt::Debug for DialectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DialectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DialectName {
    type Error = DialectNameError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let legal = !name.is_empty() && name.len() <= Self::MAX_LEN && name.bytes().all(|b| b.is_ascii_graphic());
        if legal { Ok(Self(name.into())) } else { Err(DialectNameError { len: name.len() }) }
    }
}

impl From<DialectName> for String {
    fn from(name: DialectName) -> Self {
        name.0.into_owned()
    }
}

/// The error for an invalid name of a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid dialect name: expected 1 to {max} bytes of visible ASCII, got {len} bytes", max = DialectName::MAX_LEN)]
pub struct DialectNameError {
    len: usize,
}
