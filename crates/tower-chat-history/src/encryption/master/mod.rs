//! Master keys, which wrap data keys.

mod closures;
mod ring;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use self::{closures::KeyService, ring::KeyRing};
use crate::encryption::key::{KeyError, Secret};

/// A provider of master keys, such as a [`KeyRing`] or a key management service.
///
/// Data keys are stored only in wrapped form: encrypted by a master key. A provider may have several master keys. It
/// wraps with the current one, and unwraps with all of them.
///
/// The [name](Wrapped::master) of a master key stands for one key. If a service keeps several versions of a key under
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
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<Wrapped, KeyError>;

    /// Unwraps a data key with the master key that wrapped it.
    ///
    /// # Errors
    ///
    /// - [`UnknownMaster`](KeyError::UnknownMaster) if the provider does not have that master key. Another process may
    ///   have it.
    /// - [`NotUnwrapped`](KeyError::NotUnwrapped) if the wrapped key was changed, or if the context is another one.
    /// - [`Unavailable`](KeyError::Unavailable) if a later call may succeed.
    async fn unwrap(&self, wrapped: &Wrapped, context: &[u8]) -> Result<Secret, KeyError>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<M: MasterKeys + ?Sized> MasterKeys for Arc<M> {
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<Wrapped, KeyError> {
        (**self).wrap(key, context).await
    }

    async fn unwrap(&self, wrapped: &Wrapped, context: &[u8]) -> Result<Secret, KeyError> {
        (**self).unwrap(wrapped, context).await
    }
}

/// A data key that a master key has encrypted. It is not secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Wrapped {
    /// The name of the master key, with its version if it has several.
    pub master: String,
    /// The encrypted data key. It is stored as base64.
    #[serde(with = "base64_text")]
    pub bytes: Vec<u8>,
}

impl Wrapped {
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
