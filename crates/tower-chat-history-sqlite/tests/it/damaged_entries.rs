//! Damage that listings find, and rows that are no conversations.

use tower_chat_history_core::{
    Erase, HistoryStore, Labels, LabelsOutcome, LabelsVersion, List, Listed, Prefix, StoreError,
};
use tower_chat_history_sqlite::SqliteStore;

use crate::support::{conversation, damaged, say, texts, window};

async fn list(store: &SqliteStore, under: &str) -> Result<Vec<Listed>, StoreError> {
    store.list(&under.parse().unwrap(), None, 100).await.map(|page| page.conversations)
}

fn assert_names(error: &StoreError, name: &str) {
    let named = matches!(error, StoreError::Corrupt { conversation: id, .. } if *id == conversation(name));
    assert!(named && !format!("{error:?} {error}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn a_listing_names_a_damaged_conversation_which_can_be_deleted() {
    for damage in [
        "len = 9",
        "incarnation = x''",
        "created_at = -1",
        "updated_at = -1",
        "bytes = -1",
        "labels_version = -1",
        "labels = 'secret'",
        "labels = '{\"secret\":1}'",
        "labels = '[\"secret\"]'",
        "labels = ''",
    ] {
        let (_database, store, id) = damaged(&format!("UPDATE conversation SET {damage} WHERE id = 1")).await;
        let listed = list(&store, "").await.unwrap_err();
        let described = store.describe(&id).await.unwrap_err();
        for error in [listed, described] {
            assert_names(&error, "damaged");
        }
        assert_eq!(store.describe(&conversation("whole")).await.unwrap().unwrap().revision.len(), 3);
        let counted = store.count(&Prefix::all()).await.unwrap().total();
        assert_eq!((counted.conversations, counted.exchanges), (2, 6), "{damage}");
        store.delete(&id).await.unwrap();
        let left = list(&store, "").await.unwrap();
        assert_eq!(left.iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), ["test/whole"], "{damage}");
    }
}

#[tokio::test]
async fn damaged_columns_of_entries_do_not_affect_the_log() {
    let sql = "UPDATE conversation SET created_at = -1, updated_at = -1, labels = 'secret' WHERE id = 1";
    let (_database, store, id) = damaged(sql).await;
    say(&store, &id, "four").await;
    assert_eq!(texts(&window(&store, &id).await), ["one", "two", "three", "four"]);
}

#[tokio::test]
async fn damaged_labels_can_be_replaced() {
    let sql = "UPDATE conversation SET labels = 'secret', labels_version = 7 WHERE id = 1";
    let (_database, store, id) = damaged(sql).await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    let labels = Labels::new([("title", "Nemo")]).unwrap();
    let stale = store.set_labels(&id, incarnation, LabelsVersion::NONE, labels.clone()).await.unwrap_err();
    assert_names(&stale, "damaged");
    assert!(std::error::Error::source(&stale).unwrap().to_string().contains('7'), "{stale:?}");
    let stored = store.set_labels(&id, incarnation, LabelsVersion::new(7), labels.clone()).await.unwrap();
    assert_eq!(stored, LabelsOutcome::Stored(LabelsVersion::new(8)));
    assert_eq!(store.describe(&id).await.unwrap().unwrap().labels, labels);
}

#[tokio::test]
async fn rows_whose_keys_are_no_ids_are_not_listed_but_counted_and_erased() {
    for (key, under) in [("acme/é", "acme"), ("a b", ""), ("acme//", "acme"), ("\u{1}", ""), ("é", "")] {
        let (database, store, _) = damaged("").await;
        let sql = "UPDATE conversation SET key = ?1 WHERE id = 1";
        database.connect().execute(sql, [key]).unwrap();
        let expected: &[&str] = if under.is_empty() { &["test/whole"] } else { &[] };
        let listed = list(&store, under).await.unwrap();
        assert_eq!(listed.iter().map(|listed| listed.id.as_str()).collect::<Vec<_>>(), expected, "{key:?}");
        let under: Prefix = under.parse().unwrap();
        let counted = store.count(&under).await.unwrap().total();
        assert_eq!(counted.conversations, 1 + expected.len() as u64, "{key:?}");
        let mut after = None;
        loop {
            after = store.erase(&under, after.as_ref(), 1).await.unwrap().next;
            if after.is_none() {
                break;
            }
        }
        assert!(store.count(&under).await.unwrap().total().is_nothing(), "{key:?}");
        assert_eq!(store.count(&Prefix::all()).await.unwrap().total().conversations, u64::from(expected.is_empty()));
    }
}

#[tokio::test]
async fn huge_numbers_of_damaged_exchanges_do_not_prevent_an_erasure() {
    for bytes in [i64::MIN, -1, i64::MAX] {
        let (_database, store, id) = damaged(&format!("UPDATE exchange SET bytes = {bytes}")).await;
        store.count(&Prefix::all()).await.unwrap();
        let page = store.erase(&Prefix::from(&id), None, 9).await.unwrap();
        assert_eq!((page.removed.total().exchanges, page.next), (3, None));
        store.delete(&conversation("whole")).await.unwrap();
        assert!(store.count(&Prefix::all()).await.unwrap().total().is_nothing());
    }
}
