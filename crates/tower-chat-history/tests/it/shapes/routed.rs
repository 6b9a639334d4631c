//! A routed store keeps the contract if its inner stores do.

use std::sync::Arc;

use tower_chat_history::{
    ConversationId, HistoryStore, HistoryStoreExt as _, MemoryStore, Message, RoutedStore,
    store::{Attach, Prune, Truncate},
};

use super::{id, log};

/// Returns one of two stores. Each gets about half of the conversations.
fn pick<S: Clone>(stores: &[S; 2], id: &ConversationId) -> S {
    let sum: usize = id.as_str().bytes().map(usize::from).sum();
    stores[sum % stores.len()].clone()
}

mod stores_of_one_type {
    use super::*;

    fn fixture() -> Arc<dyn Truncate> {
        let stores = [MemoryStore::new(), MemoryStore::new()];
        Arc::new(RoutedStore::new(move |id: &ConversationId| pick(&stores, id)))
    }

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        fixture(),
        without: [durable, prune, attach, erase]
    }
}

mod stores_of_any_type {
    use super::*;

    fn fixture() -> Arc<dyn HistoryStore> {
        let stores: [Arc<dyn HistoryStore>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
        Arc::new(RoutedStore::new(move |id: &ConversationId| pick(&stores, id)))
    }

    tower_chat_history_core::conformance_tests! {
        #[tokio::test]
        fixture(),
        without: [durable, truncate, prune, attach, erase]
    }
}

#[tokio::test]
async fn stores_that_can_prune_are_pruned() {
    let stores: [Arc<dyn Prune>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let routed = RoutedStore::new(move |id: &ConversationId| pick(&stores, id));
    let routed: Arc<dyn Prune> = Arc::new(routed);
    let left_out = tower_chat_history_core::testing::all(&routed).await;
    assert!(!left_out.contains(&"prune::the_last_turns_are_kept"), "{left_out:?}");
}

#[tokio::test]
async fn stores_that_keep_attachments_keep_them() {
    let stores: [Arc<dyn Attach>; 2] = [Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new())];
    let routed = RoutedStore::new(move |id: &ConversationId| pick(&stores, id));
    let routed: Arc<dyn Attach> = Arc::new(routed);
    let left_out = tower_chat_history_core::testing::all(&routed).await;
    assert!(!left_out.contains(&"attach::attachments_come_back"), "{left_out:?}");
}

#[tokio::test]
async fn truncation_reaches_the_store_that_has_the_conversation() {
    let (acme, other) = (MemoryStore::new(), MemoryStore::new());
    let stores: [Arc<dyn Truncate>; 2] = [Arc::new(acme.clone()), Arc::new(other.clone())];
    let routed = RoutedStore::new(move |id: &ConversationId| {
        let at = usize::from(id.parts().next().as_deref() != Some("acme"));
        Arc::clone(&stores[at])
    });

    // Both stores have this conversation; only one of them is the routed store's.
    let id = id(&["acme", "1"]);
    for store in [&acme, &other] {
        let turns = ["a", "b"].map(|text| [Message::user(text), Message::assistant(text)]);
        store.conversation(&id).import(turns.into_iter().flatten()).await.unwrap();
    }
    let taken = routed.conversation(&id).take_last().await.unwrap().unwrap();
    assert_eq!(taken.exchange.messages[0].text(), "b");
    assert_eq!(log(&acme, &id).await, ["a", "a"]);
    assert_eq!(log(&other, &id).await, ["a", "a", "b", "b"]);
}
