//! Keys in memory.

use std::fmt;

use chacha20poly1305::aead::common::Generate as _;
use zeroize::Zeroizing;

use super::KeyError;

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
        let key = <[u8; Self::LEN]>::try_generate().map(Zeroizing::new).map_err(KeyError::no_random)?;
        Self::from_bytes(&*key)
    }

    /// Creates the key with these bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if there are not exactly [`LEN`](Self::LEN) bytes. A password is no key: derive 32 bytes from it
    /// with a function that is made for passwords.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        // A key that was moved would leave a copy, so it is filled at its place.
        let mut key = Box::new(Zeroizing::new([0; Self::LEN]));
        if bytes.len() != Self::LEN {
            return Err(KeyError::Length { bytes: bytes.len() });
        }
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
}
