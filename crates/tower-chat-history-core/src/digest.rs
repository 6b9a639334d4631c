//! Digests of messages and prompts.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use xxhash_rust::xxh3::xxh3_128;

/// A digest of 128 bits, by xxh3. It tells prompts apart that differ by accident, and is no security boundary: somebody
/// who chooses both texts can give them the same digest.
///
/// It is stored as 32 hexadecimal digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest([u8; 16]);

impl Digest {
    /// Returns the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxh3_128(bytes).to_be_bytes())
    }

    /// Returns the digest of a list that has one more element, from the digest of the list and that of the element.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&self.0);
        both[16..].copy_from_slice(&next.0);
        Self::of(&both)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| digits);
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or_else(|| D::Error::custom("expected 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_xxh3() {
        // The test vector of the empty input, from the specification of XXH3 with 128 bits.
        assert_eq!(Digest::of(b"").to_string(), "99aa06d3014798d86001c324468d497f");
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        assert_ne!(a.then(b), b.then(a));
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), a);
        for wrong in ["\"\"", "\"0\"", "\"+9aa06d3014798d86001c324468d497f\"", "1"] {
            assert!(serde_json::from_str::<Digest>(wrong).is_err(), "{wrong}");
        }
    }
}
