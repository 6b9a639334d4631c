//! Erasures of one person among others.

use tests::{Storage, over_every_store};
use tower_chat_history::{
    ConversationId,
    store::{EraseExt as _, Timestamp},
};

use super::world::{prefix, read_all, store};

over_every_store! {
    #[tokio::test]
    ids_that_look_alike_are_other_people,
    the_receipt_has_everything_that_was_stored,
}

async fn ids_that_look_alike_are_other_people(storage: Storage) {
    let root = storage.conversation();
    let people = ["acme", "acme-2", "acme.x", "acme0", "acme~", "acm", "acme%2Fx", "Acme"];
    for person in people {
        for thread in ["", "/a", "/a/b"] {
            let id: ConversationId = format!("{root}/{person}{thread}").parse().unwrap();
            store(&storage, &id, person, Timestamp::now()).await;
        }
    }
    let everything = prefix(root.as_str());
    let before = read_all(&storage, &everything).await;
    assert_eq!(before.len(), people.len() * 3);
    let receipt = storage.store.erase_all(&prefix(&format!("{root}/acme"))).await.unwrap();
    assert_eq!(receipt.removed.total().conversations, 3);
    let mut expected = before;
    for thread in ["", "/a", "/a/b"] {
        assert!(expected.remove(&format!("{root}/acme{thread}")).is_some());
    }
    assert_eq!(read_all(&storage, &everything).await, expected);
}

async fn the_receipt_has_everything_that_was_stored(storage: Storage) {
    let root = storage.conversation();
    for number in 0..7 {
        let id = format!("{root}/{number}").parse().unwrap();
        store(&storage, &id, "secret", Timestamp::now()).await;
    }
    let receipt = storage.store.erase_all(&prefix(root.as_str())).await.unwrap();
    let removed = receipt.removed.total();
    let numbers = [removed.conversations, removed.exchanges, removed.exchange_ids, removed.compactions];
    assert_eq!(numbers, [7, 14, 14, 7]);
    assert_eq!([removed.summaries, removed.labels], [7, 7]);
    assert!(receipt.is_complete() && removed.bytes > 0);
    let json = serde_json::to_string(&receipt).unwrap();
    assert!(!json.contains("secret"), "{json}");
    let again = storage.store.erase_all(&prefix(root.as_str())).await.unwrap();
    assert!(again.removed.total().is_nothing() && again.is_complete());
}
