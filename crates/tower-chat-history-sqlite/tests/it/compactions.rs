//! Compactions after removals.

use std::sync::Arc;

use tower_chat_history_core::{
    CompactionVersion, Derived, HistoryStore, HistoryStoreExt, Load, Loaded, Profile, PruneTo, Seq, Truncate,
};

use crate::support::{TestDatabase, compact, conversation, damaged, say, window};

#[tokio::test]
async fn a_truncation_keeps_only_the_compaction_that_it_replaces() {
    for (replaces, is_kept) in [(1, true), (2, false)] {
        let (_database, store, id) = damaged("").await;
        let revision = window(&store, &id).await.revision;
        for profile in ["default", "other"] {
            store.compact(&id, revision.incarnation(), compact(profile, 1, Some("a summary"))).await.unwrap();
        }

        let mut keep = compact("default", 0, None);
        keep.replaces = CompactionVersion::new(replaces);
        store.truncate(&id, revision, Seq::new(2), Some(keep.clone())).await.unwrap();
        let expected = is_kept.then(|| keep.stored_as(CompactionVersion::new(2)));
        assert_eq!(window(&store, &id).await.compaction, expected);
        let other = Load::new().profile(Profile::new("other").unwrap());
        let Loaded::Window(other) = store.load(&id, other).await.unwrap() else { unreachable!() };
        assert_eq!(other.compaction, None);
    }
}

#[tokio::test]
async fn an_erasing_prune_removes_the_text_of_compactions_from_the_files() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("pruned"));
    for text in ["one", "two", "three"] {
        say(&store, &id, text).await;
    }
    let incarnation = window(&store, &id).await.revision.incarnation();
    let long = "a-secret-summary ".repeat(1_000);
    store.compact(&id, incarnation, compact("default", 2, Some(&long))).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(database.contains("a-secret-summary"));

    store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(!database.contains("a-secret-summary"));
    let left = window(&store, &id).await;
    let compaction = left.compaction.unwrap();
    assert_eq!((compaction.version, compaction.window_start), (CompactionVersion::new(2), Seq::new(1)));
    assert_eq!((compaction.state, compaction.derived), (Arc::from(&b"state"[..]), None));
    assert_eq!(left.exchanges.len(), 2);
}
