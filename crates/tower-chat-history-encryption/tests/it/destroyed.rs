//! Rotation and destruction of keys.

use std::time::Duration;

use tower_chat_history::MemoryStore;
use tower_chat_history_core::{HistoryStore, HistoryStoreExt, Prefix, Seq, StoreError};
use tower_chat_history_encryption::{EncryptedStore, KeyError, Keys, MemoryVault, OpenError, Vault};

use crate::support::{append, id, keys, read_at, ring, turn};

#[tokio::test]
async fn destroyed_keys_make_one_person_unreadable_also_in_a_backup() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault));
    let (anna, ben) = (id("acme/anna/1"), id("acme/ben/1"));
    for id in [&anna, &ben] {
        append(&store, id, turn("a")).await;
    }
    let backup = store.inner().clone();
    let prefix = store.keys().prefix_of(&anna);
    assert_eq!(prefix, "acme/anna".parse::<Prefix>().unwrap());
    assert!(store.keys().destroy(&prefix).await.unwrap());
    assert!(!store.keys().destroy(&prefix).await.unwrap());
    for store in [store, EncryptedStore::new(backup, keys(&vault))] {
        let Err(StoreError::Corrupt { source, .. }) = read_at(&store, &anna, Seq::FIRST).await else {
            panic!("readable")
        };
        let error = *source.downcast::<OpenError>().unwrap();
        assert!(matches!(error, OpenError::Key { source: KeyError::Missing { .. }, .. }), "{error:?}");
        assert!(read_at(&store, &ben, Seq::FIRST).await.is_ok());
    }
}

#[tokio::test]
async fn a_conversation_after_the_destruction_gets_a_new_key() {
    let store = EncryptedStore::new(MemoryStore::new(), keys(&MemoryVault::new()));
    let id = id("acme/anna/1");
    append(&store, &id, turn("a")).await;
    store.keys().destroy(&store.keys().prefix_of(&id)).await.unwrap();
    store.delete(&id).await.unwrap();
    append(&store, &id, turn("b")).await;
    assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_rotated_key_seals_and_the_old_one_still_opens() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault));
    // Another process, which read the keys before the rotation.
    let other = EncryptedStore::new(store.inner().clone(), keys(&vault));
    let (id, prefix) = (id("acme/anna/1"), "acme/anna".parse().unwrap());
    assert!(!store.keys().rotate(&prefix).await.unwrap(), "there is no key yet");
    append(&store, &id, turn("a")).await;
    append(&other, &id, turn("b")).await;
    assert!(store.keys().rotate(&prefix).await.unwrap());
    assert_eq!(vault.read(&prefix).await.unwrap().len(), 2);
    append(&store, &id, turn("c")).await;
    append(&other, &id, turn("d")).await;
    for store in [&store, &other] {
        assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 8);
    }
    let texts = [0, 1, 2, 3].map(|seq| read_at(store.inner(), &id, Seq::new(seq)));
    let mut beginnings = Vec::new();
    for text in texts {
        beginnings.push(text.await.unwrap().sealed.unwrap().text()[..12].to_owned());
    }
    assert_eq!(beginnings[0], beginnings[1]);
    assert_ne!(beginnings[0], beginnings[2]);
    assert_eq!(beginnings[3], beginnings[0], "the other process still has the old key in memory");
}

#[tokio::test]
async fn keys_are_read_again_when_their_lifetime_has_ended() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault).with_lifetime(Duration::ZERO));
    let id = id("acme/anna/1");
    append(&store, &id, turn("a")).await;
    vault.destroy(&"acme/anna".parse().unwrap()).await.unwrap();
    assert!(read_at(&store, &id, Seq::FIRST).await.is_err());
}

#[tokio::test]
async fn data_keys_are_wrapped_again_and_need_the_old_master_key_no_more() {
    let (vault, id) = (MemoryVault::new(), id("acme/anna/1"));
    let inner = MemoryStore::new();
    let with = |master| EncryptedStore::new(inner.clone(), Keys::new(master, vault.clone(), 2));
    append(&with(ring("2025", 1)), &id, turn("a")).await;
    let (new, both) = (ring("2026", 2), ring("2026", 2).with_old("2025", ring_key(1)));
    let refused = read_at(&with(new.clone()), &id, Seq::FIRST).await.unwrap_err().to_string();
    assert!(refused.contains("there is no master key 2025"), "{refused}");
    let store = with(both);
    assert!(read_at(&store, &id, Seq::FIRST).await.is_ok());
    let prefix = store.keys().prefix_of(&id);
    assert_eq!(store.keys().rewrap(&prefix).await.unwrap(), 1);
    assert_eq!(store.keys().rewrap(&prefix).await.unwrap(), 0);
    assert!(read_at(&with(new), &id, Seq::FIRST).await.is_ok());
}

fn ring_key(byte: u8) -> tower_chat_history_encryption::Secret {
    tower_chat_history_encryption::Secret::from_bytes(&[byte; 32]).unwrap()
}

#[tokio::test]
async fn the_number_of_parts_decides_which_conversations_share_a_key() {
    for (parts, prefixes) in [(0, ["", ""]), (1, ["acme", "a"]), (2, ["acme/anna", "a"]), (9, ["acme/anna/1", "a"])] {
        let keys = Keys::new(ring("m", 1), MemoryVault::new(), parts);
        let found = ["acme/anna/1", "a"].map(|text| keys.prefix_of(&id(text)).to_string());
        assert_eq!(found, prefixes);
        let store = EncryptedStore::new(MemoryStore::new(), keys);
        append(&store, &id("a"), turn("a")).await;
        assert!(read_at(&store, &id("a"), Seq::FIRST).await.is_ok());
    }
}
