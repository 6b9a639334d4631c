//! Ids of data keys.

use std::{fmt, str::FromStr};

use chacha20poly1305::aead::common::Generate as _;
use serde::{Deserialize, Serialize};

use super::KeyError;

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
        <[u8; Self::LEN]>::try_generate().map(Self).map_err(KeyError::no_random)
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
        let digits = text.len() == 2 * Self::LEN && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(|number| Self(number.to_be_bytes())).ok_or(KeyError::InvalidKeyId)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_keys_parse_back() {
        let id = KeyId::from_bytes([0, 1, 2, 3, 4, 5, 6, 255]);
        assert_eq!((id.to_string().as_str(), id.to_string().parse::<KeyId>().unwrap()), ("00010203040506ff", id));
        for wrong in ["", "0", "+0010203040506ff", "00010203040506fg", "00010203040506ff0"] {
            assert!(wrong.parse::<KeyId>().is_err(), "{wrong}");
        }
    }
}
