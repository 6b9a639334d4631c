//! Key providers that fail.

use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, KeyError, KeyService, Keys, MasterKeys as _, MemoryVault, Secret, WrappedKey},
};
use tower_chat_history_core::{Append, Expect, HistoryStore, List, Prefix, Seq, StoreError};

use crate::support::{append, id, keys, read_at, ring, turn};

/// A key management service that cannot be reached.
fn unreachable() -> KeyService {
    KeyService::new(
        |_: Secret, _: Vec<u8>| async { Err(KeyError::unavailable("the service does not answer")) },
        |_: WrappedKey, _: Vec<u8>| async { Err(KeyError::unavailable("the service does not answer")) },
    )
}

#[tokio::test]
async fn keys_that_cannot_be_reached_are_a_retryable_error() {
    let vault = MemoryVault::new();
    let (inner, id) = (MemoryStore::new(), id("acme/anna/1"));
    let store = EncryptedStore::new(inner.clone(), Keys::new(unreachable(), vault.clone(), 2));
    let refused = store.append(&id, Append::new(Expect::AnyOrCreate, turn("a"))).await.unwrap_err();
    assert!(refused.is_retryable(), "{refused:?}");
    assert!(inner.read(&id, Seq::FIRST, 1).await.unwrap().revision.is_none(), "nothing was stored");
    append(&EncryptedStore::new(inner, keys(&vault)), &id, turn("a")).await;
    let unread = read_at(&store, &id, Seq::FIRST).await.unwrap_err();
    assert!(matches!(unread, StoreError::Unavailable { .. }), "{unread:?}");
    assert!(unread.to_string().contains("exchange 0"), "{unread}");
    assert!(store.list(&Prefix::all(), None, 10).await.is_ok(), "an entry without labels needs no key");
}

#[tokio::test]
async fn a_service_of_closures_wraps_and_unwraps() {
    let (wrapping, unwrapping) = (ring("m", 1), ring("m", 1));
    let service = KeyService::new(
        move |key: Secret, context: Vec<u8>| {
            let ring = wrapping.clone();
            async move { ring.wrap(&key, &context).await }
        },
        move |wrapped: WrappedKey, context: Vec<u8>| {
            let ring = unwrapping.clone();
            async move { ring.unwrap(&wrapped, &context).await }
        },
    );
    let (vault, inner, id) = (MemoryVault::new(), MemoryStore::new(), id("acme/anna/1"));
    append(&EncryptedStore::new(inner.clone(), Keys::new(service, vault.clone(), 2)), &id, turn("a")).await;
    let by_ring = EncryptedStore::new(inner, Keys::new(ring("m", 1), vault, 2));
    assert!(read_at(&by_ring, &id, Seq::FIRST).await.is_ok());
}
