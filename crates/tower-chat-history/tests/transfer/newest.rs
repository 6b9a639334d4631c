//! The conversations that changed last.

use tower_chat_history_core::{ListExt, Prefix};

use crate::support::{TestStore, fill, prefix};

#[tokio::test]
async fn the_newest_conversations_come_first() {
    let store = TestStore::default();
    for (id, exchanges) in [("a/1", 2), ("a/2", 5), ("a/3", 3), ("a-2/1", 9)] {
        fill(&store, id, 0, exchanges).await;
    }
    let newest = store.newest(&prefix("a"), 2, 1_000).await.unwrap();
    let ids: Vec<_> = newest.conversations.iter().map(|listed| listed.id.as_str()).collect();
    assert_eq!((ids, newest.is_complete), (vec!["a/2", "a/3"], true));
    assert!(store.newest(&prefix("b"), 2, 1_000).await.unwrap().conversations.is_empty());
}

#[tokio::test]
async fn the_walk_is_bounded_and_says_when_conversations_are_missing() {
    let store = TestStore::default();
    for number in 0..20 {
        fill(&store, &format!("a/{number:02}"), 0, number + 1).await;
    }
    let newest = store.newest(&Prefix::all(), 1, 10).await.unwrap();
    assert_eq!((newest.conversations[0].id.as_str(), newest.is_complete), ("a/09", false));
    assert!(store.newest(&Prefix::all(), 1, 20).await.unwrap().is_complete);
    assert!(!store.newest(&Prefix::all(), 1, 0).await.unwrap().is_complete);
}

#[tokio::test]
async fn damaged_conversations_are_counted_and_do_not_end_the_walk() {
    let store = TestStore::default();
    for (id, exchanges) in [("a/1", 2), ("a/2", 1), ("a/3", 3)] {
        fill(&store, id, 0, exchanges).await;
    }
    store.change(|logs| logs.get_mut("a/2").unwrap().exchanges.clear());
    let newest = store.newest(&prefix("a"), 9, 1_000).await.unwrap();
    let ids: Vec<_> = newest.conversations.iter().map(|listed| listed.id.as_str()).collect();
    assert_eq!((ids, newest.damaged, newest.is_complete), (vec!["a/3", "a/1"], 1, true));
    assert!(!store.newest(&prefix("a"), 9, 2).await.unwrap().is_complete, "a damaged one counts as a step of the walk");
}
