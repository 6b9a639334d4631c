//! Master keys in a service, called by closures.

use std::{fmt, pin::Pin};

use async_trait::async_trait;

use super::{MasterKeys, Wrapped};
use crate::encryption::key::{KeyError, Secret};

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, KeyError>> + Send>>;
type Wrap = dyn Fn(Secret, Vec<u8>) -> Answer<Wrapped> + Send + Sync;
type Unwrap = dyn Fn(Wrapped, Vec<u8>) -> Answer<Secret> + Send + Sync;

/// Master keys in a key management service, which two closures call.
///
/// ```
/// use tower_chat_history::encryption::{KeyError, KeyService, Secret, Wrapped};
/// # async fn encrypt(_: &[u8], _: &[u8]) -> Result<(String, Vec<u8>), std::io::Error> { Ok(Default::default()) }
/// # async fn decrypt(_: &str, _: &[u8], _: &[u8]) -> Result<Vec<u8>, std::io::Error> { Ok(Vec::new()) }
///
/// let keys = KeyService::new(
///     |key: Secret, context: Vec<u8>| async move {
///         // The service says which version of the key it has used, such as `projects/acme/keys/chat/versions/7`.
///         let (version, bytes) = encrypt(key.expose(), &context).await.map_err(KeyError::unavailable)?;
///         Ok(Wrapped::new(version, bytes))
///     },
///     |wrapped: Wrapped, context: Vec<u8>| async move {
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
        WF: Future<Output = Result<Wrapped, KeyError>> + Send + 'static,
        U: Fn(Wrapped, Vec<u8>) -> UF + Send + Sync + 'static,
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
    async fn wrap(&self, key: &Secret, context: &[u8]) -> Result<Wrapped, KeyError> {
        (self.wrap)(key.clone(), context.to_vec()).await
    }

    async fn unwrap(&self, wrapped: &Wrapped, context: &[u8]) -> Result<Secret, KeyError> {
        (self.unwrap)(wrapped.clone(), context.to_vec()).await
    }
}
