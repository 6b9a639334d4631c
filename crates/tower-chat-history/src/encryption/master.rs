//! Master keys, which wrap data keys: of the process's own, or in a key management service.

use std::{fmt, path::Path, pin::Pin, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, decoded_len_estimate, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload, common::Generate as _},
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::encryption::key::{KeyError, Secret};

/// A provider of master keys, such as a [`KeyRing`] or a key management service.
///
/// Data keys are stored only in wrapped form: encrypted by a master key. A provider may have several master keys. It
/// wraps with the current one, and unwraps with all of them.
///
/// The [name](WrappedKey::master) of a master key stands for one key. If a service keeps several versions of a key under
/// one name, the name of the master key must contain the version that wrapped the data key. Otherwise
/// [`Keys::rewrap_all`](crate::encryption::Keys::rewrap_all) cannot see that the version is not the current one.
#[async_trait]
pub trait MasterKeys: fmt::Debug + Send + Sync + 'static {
    /// Wraps a data key with the current master key. The context says what the data key is for. It is not secret, and
    /// the same context must be given to unwrap the key. (Services call it encryption context or additional data.)
    ///
    /// # Errors
    ///
    /// Returns [`Unavailable`](KeyError::Unavailable) if a later call may succeed, and another error if not.
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<WrappedKey, KeyError>;

    /// Unwraps a data key with the master key that wrapped it.
    ///
    /// # Errors
    ///
    /// - [`UnknownMaster`](KeyError::UnknownMaster) if the provider does not have that master key. Another process may
    ///   have it.
    /// - [`NotUnwrapped`](KeyError::NotUnwrapped) if the wrapped key was changed, or if the context is another one.
    /// - [`Unavailable`](KeyError::Unavailable) if a later call may succeed.
    async fn unwrap(&self, wrapped: &WrappedKey, context: &[u8]) -> Result<Secret, KeyError>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<M: MasterKeys + ?Sized> MasterKeys for Arc<M> {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<WrappedKey, KeyError> {
        (**self).wrap(key, context).await
    }

    async fn unwrap(&self, wrapped: &WrappedKey, context: &[u8]) -> Result<Secret, KeyError> {
        (**self).unwrap(wrapped, context).await
    }
}

/// A data key that a master key has encrypted. It is not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WrappedKey {
    /// The name of the master key, with its version if it has several.
    pub master: String,
    /// The encrypted data key. It is stored as base64.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
}

impl WrappedKey {
    /// Creates the wrapped form of a key: the name of the master key, and the encrypted bytes.
    #[must_use]
    pub fn new(master: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { master: master.into(), bytes }
    }
}

/// Bytes as base64.
mod base64_text {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(|_| D::Error::custom("expected base64"))
    }
}

/// The length of a nonce of XChaCha20-Poly1305, in bytes.
const NONCE: usize = 24;

/// Master keys in memory. The first one is the current one, which wraps new data keys. The others only unwrap.
///
/// Its text form has one key per line: a name, white space, and 32 bytes in base64. Empty lines and lines that begin
/// with `#` are passed. To create a key, run `echo "2026-11 $(head -c 32 /dev/urandom | base64)"`.
///
/// To replace a master key, first add the new one *after* the old one in all processes, so that each of them can unwrap
/// what another one wraps with it. Only then move it to the front. The guide to [keys](crate::encryption::guide::keys)
/// has all steps.
///
/// `Debug` shows the names.
#[derive(Clone)]
pub struct KeyRing(Vec<Named>);

#[derive(Clone)]
struct Named {
    name: String,
    key: Secret,
}

impl KeyRing {
    /// Creates a ring with one key.
    #[must_use]
    pub fn new(name: impl Into<String>, key: Secret) -> Self {
        Self(vec![Named { name: name.into(), key }])
    }

    /// Adds a key that only unwraps. If the ring has a key of this name, that one is used.
    #[must_use]
    pub fn with_old(mut self, name: impl Into<String>, key: Secret) -> Self {
        self.0.push(Named { name: name.into(), key });
        self
    }

    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// Returns an error if a line is not a name and 32 bytes in base64, if two keys have the same name, or if there is
    /// no key. It names the line, and contains nothing of it.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut ring = Self(Vec::new());
        // Some editors write a byte order mark, which would become a part of the first name.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }

            let (name, key) = named_key(text).map_err(|reason| KeyError::InvalidLine { line, reason })?;
            if ring.find(name).is_some() {
                return Err(KeyError::InvalidLine { line, reason: "has the name of an earlier line" });
            }
            ring = ring.with_old(name, key);
        }

        if ring.0.is_empty() { Err(KeyError::NoMasterKey) } else { Ok(ring) }
    }

    /// Reads the text form from a file. This call blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, and the errors of [`parse`](Self::parse).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(KeyError::failed)?;
        Self::parse(&text)
    }

    /// Reads the text form from an environment variable.
    ///
    /// # Errors
    ///
    /// Returns an error if the variable is not set, and the errors of [`parse`](Self::parse).
    pub fn from_env(name: &str) -> Result<Self, KeyError> {
        let text = std::env::var(name).map_err(|_| KeyError::NoVariable { name: name.to_owned() })?;
        Self::parse(&Zeroizing::new(text))
    }

    fn find(&self, name: &str) -> Option<&Named> {
        self.0.iter().find(|named| named.name == name)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|named| &named.name)).finish()
    }
}

#[async_trait]
impl MasterKeys for KeyRing {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<WrappedKey, KeyError> {
        let current = self.0.first().ok_or(KeyError::NoMasterKey)?;
        let nonce = XNonce::try_generate().map_err(KeyError::unavailable)?;

        let payload = Payload { msg: key.expose(), aad: context };
        let encrypted = cipher(&current.key).encrypt(&nonce, payload).map_err(KeyError::failed)?;
        Ok(WrappedKey::new(&current.name, [&nonce[..], &encrypted].concat()))
    }

    async fn unwrap(&self, wrapped: &WrappedKey, context: &[u8]) -> Result<Secret, KeyError> {
        let WrappedKey { master, bytes } = wrapped;
        let named = self.find(master).ok_or_else(|| KeyError::UnknownMaster { master: master.clone() })?;
        let Some((nonce, encrypted)) = bytes.split_first_chunk::<NONCE>() else {
            return Err(KeyError::NotUnwrapped { master: master.clone() });
        };

        let payload = Payload { msg: encrypted, aad: context };
        let Ok(key) = cipher(&named.key).decrypt(&XNonce::from(*nonce), payload) else {
            return Err(KeyError::NotUnwrapped { master: master.clone() });
        };
        Secret::from_bytes(&Zeroizing::new(key))
    }
}

/// Reads a line of the text form. The error is the end of a sentence about the line.
fn named_key(line: &str) -> Result<(&str, Secret), &'static str> {
    let (name, key) = line.split_once(char::is_whitespace).ok_or("has no key after the name")?;
    let key = key.trim_start();

    // Also overwritten if only the beginning is base64.
    let mut bytes = Zeroizing::new(vec![0; decoded_len_estimate(key.len())]);
    let decoded = STANDARD.decode_slice(key, &mut bytes).map_err(|_| "is not base64")?;
    let key = Secret::from_bytes(bytes.get(..decoded).unwrap_or_default());
    Ok((name, key.map_err(|_| "has a key of another length than 32 bytes")?))
}

fn cipher(key: &Secret) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.expose().into())
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, KeyError>> + Send>>;
type Wrap = dyn Fn(Secret, Vec<u8>) -> Answer<WrappedKey> + Send + Sync;
type Unwrap = dyn Fn(WrappedKey, Vec<u8>) -> Answer<Secret> + Send + Sync;

/// Master keys in a key management service, which two closures call.
///
/// ```
/// use tower_chat_history::encryption::{KeyError, KeyService, Secret, WrappedKey};
/// # async fn encrypt(_: &[u8], _: &[u8]) -> Result<(String, Vec<u8>), std::io::Error> { Ok(Default::default()) }
/// # async fn decrypt(_: &str, _: &[u8], _: &[u8]) -> Result<Vec<u8>, std::io::Error> { Ok(Vec::new()) }
///
/// let keys = KeyService::new(
///     |key: Secret, context: Vec<u8>| async move {
///         // The service says which version of the key it has used, such as `projects/acme/keys/chat/versions/7`.
///         let (version, bytes) = encrypt(key.expose(), &context).await.map_err(KeyError::unavailable)?;
///         Ok(WrappedKey::new(version, bytes))
///     },
///     |wrapped: WrappedKey, context: Vec<u8>| async move {
///         let key = decrypt(&wrapped.master, &wrapped.bytes, &context).await.map_err(KeyError::unavailable)?;
///         Secret::from_bytes(&key)
///     },
/// );
/// ```
pub struct KeyService {
    wrap: Box<Wrap>,
    unwrap: Box<Unwrap>,
}

impl KeyService {
    /// Creates a provider from a closure that wraps a key and one that unwraps it. Both get the context. They must
    /// follow the contract of [`MasterKeys`].
    pub fn new<W, WF, U, UF>(wrap: W, unwrap: U) -> Self
    where
        W: Fn(Secret, Vec<u8>) -> WF + Send + Sync + 'static,
        WF: Future<Output = Result<WrappedKey, KeyError>> + Send + 'static,
        U: Fn(WrappedKey, Vec<u8>) -> UF + Send + Sync + 'static,
        UF: Future<Output = Result<Secret, KeyError>> + Send + 'static,
    {
        Self {
            wrap: Box::new(move |key, context| Box::pin(wrap(key, context))),
            unwrap: Box::new(move |wrapped, context| Box::pin(unwrap(wrapped, context))),
        }
    }
}

impl fmt::Debug for KeyService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyService").finish_non_exhaustive()
    }
}

#[async_trait]
impl MasterKeys for KeyService {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<WrappedKey, KeyError> {
        (self.wrap)(key.clone(), context.to_vec()).await
    }

    async fn unwrap(&self, wrapped: &WrappedKey, context: &[u8]) -> Result<Secret, KeyError> {
        (self.unwrap)(wrapped.clone(), context.to_vec()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, byte: u8) -> String {
        format!("{name} {}\n", STANDARD.encode([byte; 32]))
    }

    #[tokio::test]
    async fn the_first_key_wraps_and_all_keys_unwrap() {
        let old = KeyRing::parse(&line("2025", 1)).unwrap();
        let ring = KeyRing::parse(&format!("# keys\n\n{}  {}", line("2026", 2), line("2025", 1))).unwrap();
        let key = Secret::random().unwrap();
        let by_old = old.wrap(&key, b"context").await.unwrap();
        let by_new = ring.wrap(&key, b"context").await.unwrap();
        assert_eq!((by_old.master.as_str(), by_new.master.as_str()), ("2025", "2026"));
        for wrapped in [&by_old, &by_new] {
            assert_eq!(ring.unwrap(wrapped, b"context").await.unwrap().expose(), key.expose());
        }
        let unknown = old.unwrap(&by_new, b"context").await.unwrap_err();
        assert!(matches!(unknown, KeyError::UnknownMaster { .. }), "{unknown:?}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        let ring = KeyRing::parse(&format!("\u{feff}{}", line("a", 1))).unwrap();
        assert!(ring.find("a").is_some());
    }

    #[tokio::test]
    async fn a_changed_key_or_another_context_is_refused() {
        let ring = KeyRing::parse(&line("a", 1)).unwrap();
        let wrapped = ring.wrap(&Secret::random().unwrap(), b"context").await.unwrap();
        assert!(ring.unwrap(&wrapped, b"other").await.is_err());
        for bit in 0..wrapped.bytes.len() * 8 {
            let mut changed = wrapped.clone();
            changed.bytes[bit / 8] ^= 1 << (bit % 8);
            let refused = ring.unwrap(&changed, b"context").await.unwrap_err();
            assert!(matches!(refused, KeyError::NotUnwrapped { .. }), "{refused:?}");
        }
        assert!(ring.unwrap(&WrappedKey::new("a", vec![1; 23]), b"context").await.is_err());
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        let twice = line("a", 1) + &line("a", 2);
        let short = format!("{}b {}", line("a", 1), STANDARD.encode([1; 31]));
        for (text, line) in [("secret", 1), ("\na secret!", 2), (&*short, 2), (&*twice, 2)] {
            let error = KeyRing::parse(text).unwrap_err();
            assert!(matches!(error, KeyError::InvalidLine { line: found, .. } if found == line), "{error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        for text in ["", "# a\n"] {
            assert!(matches!(KeyRing::parse(text), Err(KeyError::NoMasterKey)));
        }
        assert!(matches!(KeyRing::from_env("TOWER_CHAT_HISTORY_NO_SUCH"), Err(KeyError::NoVariable { .. })));
    }

    #[test]
    fn a_ring_is_read_from_a_file_and_shows_names_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        std::fs::write(&path, line("new", 1) + &line("old", 2)).unwrap();
        assert_eq!(format!("{:?}", KeyRing::from_file(&path).unwrap()), r#"{"new", "old"}"#);
        assert!(KeyRing::from_file(directory.path()).is_err());
    }
}
