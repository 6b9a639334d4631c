//! Keys, their ids and their errors.

use std::{fmt, str::FromStr};

use chacha20poly1305::aead::common::Generate as _;
use serde::{Deserialize, Serialize};
use tower_chat_history_core::StoreError;
use zeroize::Zeroizing;

use crate::error::BoxError;

/// A key of 32 bytes. They have one place in memory, which is overwritten when the key is dropped.
///
/// While a key is used, libraries for encryption and hashes have copies of it, or of keys derived from it. Not all of
/// them overwrite these.
///
/// `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(Box<Zeroizing<[u8; Self::LEN]>>);

impl Secret {
    /// The length of a key, in bytes.
    pub const LEN: usize = 32;

    /// Creates a random key.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        let key = <[u8; Self::LEN]>::try_generate().map(Zeroizing::new).map_err(KeyError::unavailable)?;
        Self::from_bytes(&*key)
    }

    /// Creates the key with these bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if there are not exactly [`LEN`](Self::LEN) bytes. A password is no key: derive 32 bytes from it
    /// with a function that is made for passwords.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.len() != Self::LEN {
            return Err(KeyError::Length { bytes: bytes.len() });
        }

        // A key that was moved would leave a copy, so it is filled at its place.
        let mut key = Box::new(Zeroizing::new([0; Self::LEN]));
        key.copy_from_slice(bytes);
        Ok(Self(key))
    }

    /// Returns the bytes. Do not log or store them.
    #[must_use]
    pub fn expose(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The id of a data key: 8 random bytes. It is not secret. Each sealed item names the key that opens it.
///
/// The text form has 16 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId([u8; Self::LEN]);

impl KeyId {
    /// The length of an id, in bytes.
    pub const LEN: usize = 8;

    /// Creates a random id.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system has no random numbers.
    pub fn random() -> Result<Self, KeyError> {
        <[u8; Self::LEN]>::try_generate().map(Self).map_err(KeyError::unavailable)
    }

    /// Creates the id with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

impl FromStr for KeyId {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        if text.len() != 2 * Self::LEN || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(KeyError::InvalidKeyId);
        }

        let number = u64::from_str_radix(text, 16).map_err(|_| KeyError::InvalidKeyId)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl TryFrom<String> for KeyId {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.to_string()
    }
}

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
}

impl From<KeyError> for StoreError {
    fn from(error: KeyError) -> Self {
        if error.is_retryable() { Self::unavailable(error) } else { Self::backend(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_32_bytes_and_is_not_shown() {
        for bytes in [0, 16, 31, 33] {
            assert!(
                matches!(Secret::from_bytes(&vec![7; bytes]), Err(KeyError::Length { bytes: found }) if found == bytes)
            );
        }
        assert_eq!(format!("{:?}", Secret::from_bytes(&[7; 32]).unwrap()), "Secret(..)");
        assert_ne!(Secret::random().unwrap().expose(), Secret::random().unwrap().expose());
    }

    #[test]
    fn ids_of_keys_parse_back() {
        let id = KeyId::from_bytes([0, 1, 2, 3, 4, 5, 6, 255]);
        assert_eq!((id.to_string().as_str(), id.to_string().parse::<KeyId>().unwrap()), ("00010203040506ff", id));
        for wrong in ["", "0", "+0010203040506ff", "00010203040506fg", "00010203040506ff0"] {
            assert!(wrong.parse::<KeyId>().is_err(), "{wrong}");
        }
    }
}
