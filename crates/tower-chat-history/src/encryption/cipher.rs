//! Authenticated encryption of one item, and the form of a sealed item.
//!
//! A sealed item has a version number in 1 byte, the id of its data key in 8 bytes, a random nonce in 24 bytes, and the
//! text encrypted by XChaCha20-Poly1305, which ends with a tag of 16 bytes.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload, common::Generate as _},
};
use hkdf::Hkdf;
use sha2::Sha256;
use tower_chat_history_core::ConversationId;
use zeroize::Zeroizing;

use crate::encryption::{
    item::{Item, OpenError},
    key::{KeyError, KeyId, Secret},
};

/// The version of the form, of the derivation of keys, and of the associated data.
const VERSION: u8 = 1;

const HEADER: usize = 1 + KeyId::LEN;
const NONCE: usize = 24;
const TAG: usize = 16;

/// The number of bytes by which a sealed item is larger than its text.
const OVERHEAD: usize = HEADER + NONCE + TAG;

/// The number of characters that encode the header. No character also encodes a part of the nonce.
const HEADER_CHARS: usize = HEADER / 3 * 4;

/// The purpose of a conversation's key, for its derivation.
const PURPOSE: &[u8] = b"tower-chat-history conversation key 1\0";

/// The cipher of one conversation under one data key.
pub(crate) struct Cipher {
    key: KeyId,
    conversation: ConversationId,
    cipher: XChaCha20Poly1305,
}

impl Cipher {
    /// Derives the conversation's key from a data key, by HKDF-SHA-256.
    pub(crate) fn new(key: KeyId, secret: &Secret, conversation: &ConversationId) -> Result<Self, KeyError> {
        let mut derived = Zeroizing::new([0; Secret::LEN]);
        let info = [PURPOSE, conversation.as_str().as_bytes()];
        let derivation = Hkdf::<Sha256>::new(None, secret.expose());
        derivation.expand_multi_info(&info, &mut *derived).map_err(KeyError::failed)?;

        let cipher = XChaCha20Poly1305::new((&*derived).into());
        Ok(Self { key, conversation: conversation.clone(), cipher })
    }

    /// Returns the id of the data key.
    pub(crate) const fn key(&self) -> KeyId {
        self.key
    }

    /// Seals an item.
    pub(crate) fn seal(&self, item: &Item, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        let nonce = XNonce::try_generate().map_err(KeyError::unavailable)?;
        let mut header = [VERSION; HEADER];
        header[1..].copy_from_slice(self.key.as_bytes());

        let binding = item.binding(&self.conversation, &header);
        let encrypted = self.cipher.encrypt(&nonce, Payload { msg: text, aad: &binding }).map_err(KeyError::failed)?;
        Ok([&header, &nonce[..], &encrypted].concat())
    }

    /// Seals an item whose sealed form is a text.
    pub(crate) fn seal_text(&self, item: &Item, text: &[u8]) -> Result<String, KeyError> {
        self.seal(item, text).map(|sealed| URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens an item that was sealed under this cipher's data key. Returns `None` if it was changed or moved.
    pub(crate) fn open(&self, item: &Item, sealed: &SealedBytes) -> Option<Vec<u8>> {
        let (header, rest) = sealed.0.split_first_chunk::<HEADER>()?;
        let (nonce, encrypted) = rest.split_first_chunk::<NONCE>()?;

        let binding = item.binding(&self.conversation, header);
        self.cipher.decrypt(&XNonce::from(*nonce), Payload { msg: encrypted, aad: &binding }).ok()
    }
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cipher").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The bytes of a sealed item, which has a header, a nonce and a tag.
pub(crate) struct SealedBytes(Vec<u8>);

impl SealedBytes {
    /// Reads a sealed item from its text.
    pub(crate) fn from_text(item: &Item, text: &str) -> Result<Self, OpenError> {
        match URL_SAFE_NO_PAD.decode(text) {
            Ok(bytes) => Self::from_bytes(item, bytes),
            // The header may still be whole, and name the key.
            Err(_) => Err(OpenError::Damaged { item: item.clone(), key: key_of(text) }),
        }
    }

    /// Reads a sealed item from its bytes.
    pub(crate) fn from_bytes(item: &Item, bytes: Vec<u8>) -> Result<Self, OpenError> {
        match (key_in(&bytes), bytes.first()) {
            (Some(key), Some(&version)) if version > VERSION => {
                Err(OpenError::Newer { item: item.clone(), key, version, known: VERSION })
            }
            (Some(_), Some(&VERSION)) if bytes.len() >= OVERHEAD => Ok(Self(bytes)),
            (key, _) => Err(OpenError::Damaged { item: item.clone(), key }),
        }
    }

    /// Returns the id of the key that opens it.
    pub(crate) fn key(&self) -> KeyId {
        // Every value has a header.
        key_in(&self.0).unwrap_or(KeyId::from_bytes([0; KeyId::LEN]))
    }
}

/// Returns the id of the key that a sealed text names. The rest of the text is not read.
fn key_of(text: &str) -> Option<KeyId> {
    let header = URL_SAFE_NO_PAD.decode(text.get(..HEADER_CHARS)?).ok()?;
    key_in(&header)
}

/// Returns the key id in the header at the beginning of these bytes.
fn key_in(bytes: &[u8]) -> Option<KeyId> {
    bytes.get(1..)?.first_chunk().map(|id| KeyId::from_bytes(*id))
}

#[cfg(test)]
mod tests {
    use tower_chat_history_core::{Profile, Seq};

    use super::*;

    fn item() -> Item {
        Item::Derived(Profile::default(), Seq::FIRST)
    }

    fn cipher(conversation: &str) -> Cipher {
        let secret = Secret::from_bytes(&[7; 32]).unwrap();
        Cipher::new(KeyId::from_bytes([1; 8]), &secret, &conversation.parse().unwrap()).unwrap()
    }

    #[test]
    fn an_item_opens_in_its_place_only() {
        let cipher_a = cipher("a");
        let sealed = SealedBytes::from_bytes(&item(), cipher_a.seal(&item(), b"text").unwrap()).unwrap();
        assert_eq!(cipher_a.open(&item(), &sealed).unwrap(), b"text");
        assert_eq!(cipher_a.open(&Item::Labels, &sealed), None);
        assert_eq!(cipher("b").open(&item(), &sealed), None);
    }

    #[test]
    fn one_text_is_sealed_differently_each_time_and_is_larger_by_the_overhead() {
        let cipher = cipher("a");
        let [one, other] = [(); 2].map(|()| cipher.seal(&item(), b"text").unwrap());
        assert_ne!(one[HEADER..], other[HEADER..]);
        assert_eq!(one.len(), 4 + OVERHEAD);
        let text = cipher.seal_text(&item(), b"text").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(text).unwrap().len(), 4 + OVERHEAD);
    }

    #[test]
    fn the_header_ends_with_a_character() {
        assert_eq!(HEADER % 3, 0);
    }

    #[test]
    fn a_newer_version_is_a_typed_error() {
        let mut sealed = cipher("a").seal(&item(), b"text").unwrap();
        sealed[0] = VERSION + 1;
        let error = SealedBytes::from_bytes(&item(), sealed).err().unwrap();
        assert!(matches!(error, OpenError::Newer { version: 2, known: 1, .. }), "{error:?}");
    }
}
