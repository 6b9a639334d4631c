//! The names of a vault's entries.

use std::fmt;

use sha2::{Digest as _, Sha256};
use tower_chat_history_core::Prefix;

/// The name of an entry in a vault: the SHA-256 of its prefix.
///
/// A vault does not see the ids of conversations. (Somebody who guesses a prefix can check the guess.) The text form
/// has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId([u8; Self::LEN]);

impl EntryId {
    /// The length of a name, in bytes.
    pub const LEN: usize = 32;

    /// Returns the name of a prefix's entry.
    #[must_use]
    pub fn of(prefix: &Prefix) -> Self {
        Self::of_text(prefix.as_str())
    }

    /// Returns the name of the entry of the prefix with this text form.
    pub(crate) fn of_text(prefix: &str) -> Self {
        Self(Sha256::digest(prefix.as_bytes()).into())
    }

    /// Creates the name with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Reads the text form.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 2 * Self::LEN || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries_parse_back() {
        let id = EntryId::of(&"acme/anna".parse().unwrap());
        let text = id.to_string();
        assert_eq!(EntryId::from_hex(&text), Some(id));
        for wrong in ["", &text[1..], &format!("+{}", &text[1..]), &text.replace(|c: char| c.is_alphabetic(), "G")] {
            assert_eq!(EntryId::from_hex(wrong), None, "{wrong}");
        }
        assert_ne!(EntryId::of(&Prefix::all()), id);
    }
}
