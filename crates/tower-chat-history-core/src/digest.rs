//! Digests of messages and prompts.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use xxhash_rust::xxh3::xxh3_64;

/// A digest of 64 bits, by xxh3. It tells prompts apart that differ by accident, and is no security boundary: somebody
/// who chooses both texts can give them the same digest.
///
/// It is stored as 11 characters of URL-safe base64, and shown as 16 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest([u8; 8]);

impl Digest {
    /// Returns the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_64(bytes).to_be_bytes())
    }

    pub(crate) const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(self) -> [u8; 8] {
        self.0
    }

    /// Returns the digest of a list that has one more element, from the digest of the list and that of the element.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&self.0);
        both[8..].copy_from_slice(&next.0);
        Self::of(&both)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(&*text).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| D::Error::custom("expected 11 characters of base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_xxh3() {
        // The test vector of the empty input, from the specification of XXH3 with 64 bits.
        assert_eq!(Digest::of(b"").to_string(), "2d06800538d394c2");
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_ne!(a.then(b), b.then(a));
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), a);
        for wrong in ["\"\"", "\"0\"", "\"2d06800538d394c2\"", "1"] {
            assert!(serde_json::from_str::<Digest>(wrong).is_err(), "{wrong}");
        }
    }
}
