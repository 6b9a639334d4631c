//! Listings with sealed labels.

use std::time::Duration;

use tower_chat_history::encryption::EncryptedStore;
use tower_chat_history_core::{Expiry, ExpiryRule, HistoryStore, List, Prefix, Timestamp};

use crate::support::{id, in_memory, label};

#[tokio::test]
async fn labels_that_do_not_open_damage_their_own_entry_only() {
    let (store, ids) = (in_memory(), ["acme/anna/1", "acme/anna/2", "acme/ben/1"].map(id));
    for id in &ids {
        label(&store, id, "title").await;
    }
    let sealed = store.inner().describe(&ids[0]).await.unwrap().unwrap().labels;
    let moved = store.inner().describe(&ids[1]).await.unwrap().unwrap();
    let (incarnation, version) = (moved.revision.incarnation(), moved.labels_version);
    store.inner().set_labels(&ids[1], incarnation, version, sealed).await.unwrap();
    let page = store.list(&Prefix::all(), None, 10).await.unwrap();
    assert_eq!(page.conversations.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&ids[0], &ids[2]]);
    assert_eq!((page.damaged.len(), &page.damaged[0].id), (1, &ids[1]));
    assert!(page.damaged[0].error.to_string().contains("labels"), "{}", page.damaged[0].error);
    assert!(store.describe(&ids[1]).await.is_err());
}

#[tokio::test]
async fn a_labeled_conversation_whose_key_was_destroyed_is_listed_and_expires() {
    let (store, ids) = (in_memory(), ["acme/anna/1", "acme/ben/1"].map(id));
    for id in &ids {
        label(&store, id, "title").await;
    }
    store.keys().destroy(&"acme/anna".parse().unwrap()).await.unwrap();
    let page = store.list(&Prefix::all(), None, 10).await.unwrap();
    assert!(page.damaged.is_empty());
    let labels: Vec<_> = page.conversations.iter().map(|listed| listed.labels.get("title")).collect();
    assert_eq!(labels, [None, Some("title")]);
    assert!(store.describe(&ids[0]).await.unwrap().unwrap().labels.is_empty());
    let expiry = Expiry::new().under("acme/anna".parse().unwrap(), ExpiryRule::Age(Duration::ZERO));
    let run = expiry.run_once(&store, Timestamp::now(), None, 10).await.unwrap();
    assert_eq!((run.removed.total().conversations, run.damaged), (1, 0));
}

#[tokio::test]
async fn labels_that_are_not_sealed_are_an_error() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    label(store.inner(), &id, "planted").await;
    assert!(store.describe(&id).await.is_err());
    store.delete(&id).await.unwrap();
    let inner = EncryptedStore::new(store.inner().clone(), store.keys().clone());
    assert_eq!(inner.describe(&id).await.unwrap(), None);
}
