//! The errors of keys.

use tower_chat_history_core::StoreError;

use super::KeyId;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The error of a key, a key provider or a vault. It contains ids and names of keys, and never a key. It contains no
/// prefix either, because a prefix may name a person.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A key does not have 32 bytes.
    #[error("invalid key: expected 32 bytes, got {bytes}")]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// A text is not the id of a key.
    #[error("invalid key id: expected 16 hexadecimal digits")]
    InvalidKeyId,
    /// A list of master keys cannot be read.
    #[error("the master keys cannot be read: line {line} {reason}")]
    InvalidLine {
        /// The line, counted from 1.
        line: usize,
        /// The reason, as the end of a sentence.
        reason: &'static str,
    },
    /// A list of master keys has no key.
    #[error("there is no master key")]
    NoMasterKey,
    /// The environment variable of the master keys is not set.
    #[error("the environment variable {name} is not set, or is not UTF-8")]
    NoVariable {
        /// The name of the variable.
        name: String,
    },
    /// The vault has no such data key: it was destroyed, or the vault is another one.
    #[error("the vault has no data key {key} for this conversation")]
    Missing {
        /// The id of the data key.
        key: KeyId,
    },
    /// A prefix has no data keys, and another number of parts than those that have.
    #[error("the prefix of {parts} parts has no data keys: prefixes of {keyed} parts have")]
    Prefix {
        /// The number of parts of the prefix.
        parts: usize,
        /// The number of parts that have data keys.
        keyed: usize,
    },
    /// A data key is wrapped by a master key that the provider does not have. Another process may have it: this is no
    /// damage, and retrying helps after the key was added.
    #[error("there is no master key {master}")]
    UnknownMaster {
        /// The name of the master key.
        master: String,
    },
    /// A wrapped data key was changed, or belongs to another prefix.
    #[error("the data key cannot be unwrapped with the master key {master}")]
    NotUnwrapped {
        /// The name of the master key.
        master: String,
    },
    /// The vault has an entry that cannot be read.
    #[error("an entry of the vault is damaged")]
    DamagedVault,
    /// The provider or the vault cannot be reached at the moment. Retrying may help.
    #[error("the keys are not available: {source}")]
    Unavailable {
        /// The cause.
        source: BoxError,
    },
    /// The provider or the vault failed in a way that retrying will not fix.
    #[error("the keys cannot be used: {source}")]
    Failed {
        /// The cause.
        source: BoxError,
    },
}

impl KeyError {
    /// Creates the error for a failure that may go away by itself.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable { source: source.into() }
    }

    /// Creates the error for a failure that will not go away by itself.
    pub fn failed(source: impl Into<BoxError>) -> Self {
        Self::Failed { source: source.into() }
    }

    /// Returns `true` if the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::UnknownMaster { .. })
    }

    pub(crate) fn no_random(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::unavailable(error)
    }
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        if error.is_retryable() { Self::unavailable(error) } else { Self::backend(error) }
    }
}
