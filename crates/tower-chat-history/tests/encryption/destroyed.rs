//! Rotation and destruction of keys.

use std::{future::pending, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tower_chat_history::{
    MemoryStore,
    encryption::{DataKey, EncryptedStore, EntryId, KeyError, KeyId, Keys, MemoryVault, OpenError, Vault},
};
use tower_chat_history_core::{
    Append, CompactionVersion, Cut, Cuts, EraseExt as _, Expect, HistoryStore, HistoryStoreExt, Labels, LabelsVersion,
    List as _, Load, Loaded, Prefix, Profile, Seq, StoreError, Summary, Truncate as _,
};

use crate::support::{TestDatabase, append, id, keys, read_at, ring, turn};

#[tokio::test]
async fn destroyed_keys_make_one_person_unreadable_also_in_a_backup() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let (anna, ben) = (id("acme/anna/1"), id("acme/ben/1"));
    for id in [&anna, &ben] {
        append(&store, id, turn("a")).await;
    }
    store.inner().clone().close().await.unwrap();
    let (backup, store) = (database.back_up(), database.open().await);
    assert!(read_at(&backup.open().await, &anna, Seq::FIRST).await.is_ok());
    let prefix = store.keys().prefix_of(&anna);
    assert_eq!(prefix, "acme/anna".parse::<Prefix>().unwrap());
    store.erase_all(&prefix).await.unwrap();
    assert!(store.keys().destroy(&prefix).await.unwrap());
    assert!(!store.keys().destroy(&prefix).await.unwrap());
    assert!(read_at(&store, &ben, Seq::FIRST).await.is_ok());
    let restored = backup.open().await;
    assert!(restored.inner().describe(&anna).await.unwrap().is_some(), "the backup has the conversation");
    let Err(StoreError::Corrupt { source, .. }) = read_at(&restored, &anna, Seq::FIRST).await else {
        panic!("readable")
    };
    let error = *source.downcast::<OpenError>().unwrap();
    assert!(matches!(error, OpenError::Key { source: KeyError::Missing { .. }, .. }), "{error:?}");
    assert!(read_at(&restored, &ben, Seq::FIRST).await.is_ok());
}

/// A vault whose changes take effect, and then never return.
#[derive(Clone, Debug)]
struct Stuck(MemoryVault);

#[async_trait]
impl Vault for Stuck {
    async fn read(&self, of: &EntryId) -> Result<Vec<DataKey>, KeyError> {
        self.0.read(of).await
    }

    async fn list(&self, after: Option<&EntryId>, limit: usize) -> Result<Vec<EntryId>, KeyError> {
        self.0.list(after, limit).await
    }

    async fn add_if(&self, of: &EntryId, current: Option<KeyId>, key: &DataKey) -> Result<bool, KeyError> {
        let added = self.0.add_if(of, current, key).await;
        if current.is_some() { pending().await } else { added }
    }

    async fn replace(&self, _: &EntryId, _: &DataKey, _: &DataKey) -> Result<bool, KeyError> {
        pending().await
    }

    async fn destroy(&self, of: &EntryId) -> Result<bool, KeyError> {
        self.0.destroy(of).await?;
        pending().await
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_forgets_the_keys_too() {
    let vault = Stuck(MemoryVault::new());
    let store = EncryptedStore::new(MemoryStore::new(), Keys::new(ring("m", 1), vault, 2));
    let (id, prefix) = (id("acme/anna/1"), "acme/anna".parse().unwrap());
    append(&store, &id, turn("a")).await;
    assert!(store.keys().rotate(&prefix).now_or_never().is_none());
    append(&store, &id, turn("b")).await;
    let key =
        async |seq| read_at(store.inner(), &id, Seq::new(seq)).await.unwrap().sealed.unwrap().text()[..12].to_owned();
    assert_ne!(key(0).await, key(1).await, "the new key seals");
    assert!(store.keys().destroy(&prefix).now_or_never().is_none());
    assert!(read_at(&store, &id, Seq::FIRST).await.is_err());
}

#[tokio::test]
async fn keys_are_forgotten_on_request() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault));
    let id = id("acme/anna/1");
    append(&store, &id, turn("a")).await;
    vault.destroy(&EntryId::of(&"acme/anna".parse().unwrap())).await.unwrap();
    assert!(read_at(&store, &id, Seq::FIRST).await.is_ok(), "it is in memory");
    store.forget(&"acme".parse().unwrap());
    assert!(read_at(&store, &id, Seq::FIRST).await.is_err());
}

#[tokio::test]
async fn writes_to_a_conversation_whose_keys_were_destroyed_make_no_key() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault));
    let (id, of) = (id("acme/anna/1"), EntryId::of(&"acme/anna".parse().unwrap()));
    let appended = append(&store, &id, turn("a")).await;
    let (revision, incarnation) = (appended.revision, appended.revision.incarnation());
    store.keys().destroy(&"acme/anna".parse().unwrap()).await.unwrap();
    let mut cut = Cut::window_from(Seq::FIRST);
    cut.set_summary(Summary::new("summary"), Seq::FIRST);
    let labels = Labels::new([("title", "title")]).unwrap();
    for is_deleted in [false, true] {
        for expect in [Expect::Exactly(revision), Expect::AnyIn(incarnation)] {
            let refused = store.append(&id, Append::new(expect, turn("b"))).await;
            assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
        }
        let compact = Cuts::new(cut.clone()).compact(Profile::default(), CompactionVersion::NONE).unwrap();
        let refused = store.compact(&id, incarnation, compact.clone()).await;
        assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
        let refused = store.truncate(&id, revision, Seq::FIRST, Some(compact)).await;
        assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
        let refused = store.set_labels(&id, incarnation, LabelsVersion::NONE, labels.clone()).await;
        assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
        assert_eq!(vault.read(&of).await.unwrap(), []);
        if !is_deleted {
            let refused = store.append(&id, Append::new(Expect::AnyOrCreate, turn("b"))).await;
            assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
            store.delete(&id).await.unwrap();
        }
    }
    assert_eq!(vault.read(&of).await.unwrap(), []);
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
    assert_eq!(vault.read(&EntryId::of(&prefix)).await.unwrap().len(), 2);
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
    vault.destroy(&EntryId::of(&"acme/anna".parse().unwrap())).await.unwrap();
    assert!(read_at(&store, &id, Seq::FIRST).await.is_err());
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

/// The guide to keys and the docs of `encryption::keys` state this exception.
#[tokio::test]
async fn a_first_turn_in_flight_stores_nothing_but_leaves_a_key_that_a_second_destruction_removes() {
    let vault = MemoryVault::new();
    let store = EncryptedStore::new(MemoryStore::new(), keys(&vault));
    let (old, new, prefix) = (id("acme/anna/1"), id("acme/anna/2"), "acme/anna".parse().unwrap());
    append(&store, &old, turn("a")).await;
    let Loaded::Absent(epoch) = store.load(&new, Load::new()).await.unwrap() else { panic!("it exists") };
    store.erase_all(&prefix).await.unwrap();
    assert!(store.keys().destroy(&prefix).await.unwrap());
    let refused = store.append(&new, Append::new(Expect::Absent, turn("b")).since(Some(epoch))).await;
    assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
    assert_eq!(store.inner().describe(&new).await.unwrap(), None);
    assert_eq!(vault.read(&EntryId::of(&prefix)).await.unwrap().len(), 1);
    assert!(store.keys().destroy(&prefix).await.unwrap());
    assert_eq!(vault.read(&EntryId::of(&prefix)).await.unwrap(), []);
}
