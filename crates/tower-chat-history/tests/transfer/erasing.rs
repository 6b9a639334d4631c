//! Erasures and their receipts.

use tower_chat_history_core::StoreError;
use tower_chat_history_core::{EraseExt, Prefix, Receipt};

use crate::support::{TestStore, fill, prefix};

async fn filled() -> TestStore {
    let store = TestStore::default();
    for number in 0..250 {
        fill(&store, &format!("acme/user-1/{number}"), 0, 2).await;
    }
    fill(&store, "acme/user-10", 0, 1).await;
    store
}

#[tokio::test]
async fn a_receipt_says_what_was_removed_and_that_nothing_is_left() {
    let store = filled().await;
    let receipt = store.erase_all(&prefix("acme/user-1")).await.unwrap();
    assert!(receipt.is_complete() && receipt.started_at <= receipt.ended_at);
    assert_eq!((receipt.removed.total().conversations, receipt.removed.total().exchanges), (250, 500));
    assert_eq!(store.logs().into_keys().collect::<Vec<_>>(), ["acme/user-10"]);
    let json = serde_json::to_string(&receipt).unwrap();
    assert_eq!(serde_json::from_str::<Receipt>(&json).unwrap(), receipt);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["under"], &json["removed"]["test"]["exchanges"]), (&"acme/user-1".into(), &500.into()));
}

#[tokio::test]
async fn an_interrupted_erasure_says_what_was_removed_and_continues_when_repeated() {
    let store = filled().await;
    let mut calls = 0;
    store.before_each(move |name, _| {
        calls += usize::from(name == "erase");
        if calls == 2 { Err(StoreError::unavailable("the network is down")) } else { Ok(()) }
    });
    let error = store.erase_all(&Prefix::all()).await.unwrap_err();
    assert_eq!(error.done.removed.total().conversations, 200);
    assert!(!error.done.is_complete() && error.done.remaining.is_none());
    assert!(error.to_string().contains("after 200 conversations: the store is not available"), "{error}");
    store.before_each(|_, _| Ok(()));
    let receipt = store.erase_all(&Prefix::all()).await.unwrap();
    assert!(receipt.is_complete());
    assert_eq!(receipt.removed.total().conversations, 51);
}

#[tokio::test]
async fn conversations_that_begin_during_an_erasure_are_erased_too() {
    let store = filled().await;
    let one = store.logs()["acme/user-10"].clone();
    let mut counts = 0;
    store.before_each(move |name, logs| {
        counts += usize::from(name == "count");
        if name == "count" && counts == 1 {
            logs.insert("acme/new".into(), one.clone());
        }
        Ok(())
    });
    let receipt = store.erase_all(&Prefix::all()).await.unwrap();
    assert_eq!((receipt.removed.total().conversations, receipt.is_complete()), (252, true));
}

#[tokio::test]
async fn an_erasure_ends_although_others_write_without_end() {
    let store = filled().await;
    let one = store.logs()["acme/user-10"].clone();
    store.before_each(move |name, logs| {
        if name == "count" {
            logs.insert("acme/new".into(), one.clone());
        }
        Ok(())
    });
    let receipt = store.erase_all(&Prefix::all()).await.unwrap();
    assert!(!receipt.is_complete());
    assert_eq!(receipt.remaining.unwrap().total().conversations, 1);
}
