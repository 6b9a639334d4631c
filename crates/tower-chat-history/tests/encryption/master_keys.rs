//! Replacement of master keys.

use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicUsize, Ordering},
};

use tower_chat_history::{
    MemoryStore,
    encryption::{
        DataKey, EncryptedStore, EntryId, KeyError, KeyId, KeyRing, KeyService, Keys, MasterKeys as _, MemoryVault,
        Secret, Vault as _, WrappedKey,
    },
};
use tower_chat_history_core::{Append, Expect, HistoryStore, Seq, StoreError};

use crate::support::{append, id, read_at, ring, turn};

fn secret(byte: u8) -> Secret {
    Secret::from_bytes(&[byte; 32]).unwrap()
}

/// The rings of the steps in which the key 2025 is replaced by the key 2026.
fn steps() -> [KeyRing; 4] {
    [
        ring("2025", 1),
        ring("2025", 1).with_old("2026", secret(2)),
        ring("2026", 2).with_old("2025", secret(1)),
        ring("2026", 2),
    ]
}

#[tokio::test]
async fn each_two_successive_steps_of_a_replacement_work_side_by_side() {
    let (vault, inner) = (MemoryVault::new(), MemoryStore::new());
    let process = |ring: &KeyRing| EncryptedStore::new(inner.clone(), Keys::new(ring.clone(), vault.clone(), 2));
    let steps = steps();
    for (step, rings) in steps.windows(2).enumerate() {
        if step == 2 {
            let run = process(&rings[0]).keys().rewrap_all().await.unwrap();
            assert_eq!((run.entries, run.keys, run.failed), (4, 3, 0), "one is wrapped by the new key already");
        }
        for (process_number, ring) in rings.iter().enumerate() {
            // The first conversation of a person, which makes a key.
            let own = id(&format!("acme/{step}-{process_number}/1"));
            append(&process(ring), &own, turn("a")).await;
            for reader in rings {
                assert!(read_at(&process(reader), &own, Seq::FIRST).await.is_ok(), "{ring:?}, {reader:?}");
                append(&process(reader), &own, turn("b")).await;
            }
        }
    }
    assert!(read_at(&process(&steps[3]), &id("acme/0-0/1"), Seq::FIRST).await.is_ok());
}

#[tokio::test]
async fn a_process_without_the_master_key_can_try_again_later() {
    let (vault, inner) = (MemoryVault::new(), MemoryStore::new());
    let process = |ring: KeyRing| EncryptedStore::new(inner.clone(), Keys::new(ring, vault.clone(), 2));
    let (id, [old, _, both, _]) = (id("acme/anna/1"), steps());
    append(&process(both), &id, turn("a")).await;
    let late = process(old);
    for refused in [
        late.append(&id, Append::new(Expect::AnyOrCreate, turn("b"))).await.unwrap_err(),
        read_at(&late, &id, Seq::FIRST).await.unwrap_err(),
    ] {
        assert!(matches!(refused, StoreError::Unavailable { .. }) && refused.is_retryable(), "{refused:?}");
        assert!(refused.to_string().contains("there is no master key 2026"), "{refused}");
    }
}

#[tokio::test]
async fn all_keys_are_wrapped_again_also_those_without_a_conversation() {
    let (vault, inner) = (MemoryVault::new(), MemoryStore::new());
    let process = |ring: &KeyRing| EncryptedStore::new(inner.clone(), Keys::new(ring.clone(), vault.clone(), 2));
    let ([old, _, both, new], anna, ben) = (steps(), id("acme/anna/1"), id("acme/ben/1"));
    for id in [&anna, &ben] {
        append(&process(&old), id, turn("a")).await;
    }
    process(&old).keys().rotate(&"acme/anna".parse().unwrap()).await.unwrap();
    // Ben has no conversation any more, but a key.
    process(&old).delete(&ben).await.unwrap();
    // An entry that cannot be unwrapped does not stop the others.
    let damaged = EntryId::from_bytes([0; 32]);
    let key = DataKey::new(KeyId::from_bytes([1; 8]), WrappedKey::new("2025", vec![1; 72]));
    vault.add_if(&damaged, None, &key).await.unwrap();
    let run = process(&both).keys().rewrap_all().await.unwrap();
    assert_eq!((run.entries, run.keys, run.failed), (3, 3, 1));
    assert_eq!(run.first_failure.unwrap().0, damaged);
    assert_eq!(process(&both).keys().rewrap_all().await.unwrap().keys, 0);
    assert!(read_at(&process(&new), &anna, Seq::FIRST).await.is_ok());
    append(&process(&new), &ben, turn("b")).await;
}

/// A service that keeps all versions of a key, and says which one has wrapped.
fn service(version: &Arc<AtomicU8>) -> KeyService {
    let version = Arc::clone(version);
    let ring = |version: u8| ring(&format!("keys/chat/{version}"), version);
    KeyService::new(
        move |key: Secret, context: Vec<u8>| {
            let ring = ring(version.load(Ordering::Relaxed));
            async move { ring.wrap(&key, &context).await }
        },
        move |wrapped: WrappedKey, context: Vec<u8>| async move {
            let version = wrapped.master.rsplit('/').next().unwrap().parse().unwrap();
            ring(version).unwrap(&wrapped, &context).await
        },
    )
}

#[tokio::test]
async fn a_new_version_of_a_key_wraps_again_and_keys_in_memory_are_forgotten() {
    let (vault, version) = (MemoryVault::new(), Arc::new(AtomicU8::new(1)));
    let store = EncryptedStore::new(MemoryStore::new(), Keys::new(service(&version), vault.clone(), 2));
    let id = id("acme/anna/1");
    append(&store, &id, turn("a")).await;
    version.store(2, Ordering::Relaxed);
    assert_eq!(store.keys().rewrap_all().await.unwrap().keys, 1);
    let of = EntryId::of(&"acme/anna".parse().unwrap());
    assert_eq!(vault.read(&of).await.unwrap()[0].wrapped.master, "keys/chat/2");
    vault.destroy(&of).await.unwrap();
    assert!(read_at(&store, &id, Seq::FIRST).await.is_err(), "the key is read again");
}

/// A service that counts its calls, and that cannot be reached after this number of them.
fn limited(ring: KeyRing, limit: usize) -> (KeyService, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let admit = {
        let calls = Arc::clone(&calls);
        move || {
            let is_admitted = calls.fetch_add(1, Ordering::Relaxed) < limit;
            if is_admitted { Ok(()) } else { Err(KeyError::unavailable("unreachable")) }
        }
    };
    let (wraps, unwraps) = ((ring.clone(), admit.clone()), (ring, admit));
    let service = KeyService::new(
        move |key: Secret, context: Vec<u8>| {
            let (ring, admitted) = (wraps.0.clone(), wraps.1());
            async move {
                admitted?;
                ring.wrap(&key, &context).await
            }
        },
        move |wrapped: WrappedKey, context: Vec<u8>| {
            let (ring, admitted) = (unwraps.0.clone(), unwraps.1());
            async move {
                admitted?;
                ring.unwrap(&wrapped, &context).await
            }
        },
    );
    (service, calls)
}

#[tokio::test]
async fn a_run_that_stops_says_what_it_has_done_and_the_next_one_skips_that() {
    let (vault, inner) = (MemoryVault::new(), MemoryStore::new());
    let [old, _, both, _] = steps();
    for person in 0..10 {
        let store = EncryptedStore::new(inner.clone(), Keys::new(old.clone(), vault.clone(), 2));
        append(&store, &id(&format!("acme/{person}/1")), turn("a")).await;
    }
    let rewrap = async |limit| {
        let (service, calls) = limited(both.clone(), limit);
        let run = Keys::new(service, vault.clone(), 2).rewrap_all().await;
        (run, calls.load(Ordering::Relaxed))
    };
    let stopped = rewrap(8).await.0.unwrap_err();
    assert!(matches!(stopped.source, KeyError::Unavailable { .. }), "{stopped:?}");
    assert_eq!((stopped.run.entries, stopped.run.keys, stopped.run.failed), (4, 4, 0));
    let (run, calls) = rewrap(usize::MAX).await;
    let run = run.unwrap();
    assert_eq!((run.entries, run.keys), (10, 6));
    assert_eq!(calls, 2 * (1 + 6), "the first key says which master key is the current one");
    let (run, calls) = rewrap(usize::MAX).await;
    assert_eq!((run.unwrap().keys, calls), (0, 2));
}
