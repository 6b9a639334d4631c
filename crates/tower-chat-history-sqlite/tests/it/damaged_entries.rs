//! Damage that listings find, and rows that are no conversations.

use tower_chat_history_core::{
    Erase, HistoryStore, Labels, LabelsOutcome, LabelsVersion, List, Listing, Load, Prefix, StoreError,
};
use tower_chat_history_sqlite::SqliteStore;

use crate::support::{conversation, damaged, say, texts, window};

async fn list(store: &SqliteStore, under: &str) -> Listing {
    store.list(&under.parse().unwrap(), None, 100).await.unwrap()
}

fn ids(page: &Listing) -> Vec<&str> {
    page.conversations.iter().map(|listed| listed.id.as_str()).collect()
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
        let page = list(&store, "").await;
        assert_eq!((ids(&page), page.foreign_keys, &page.next), (vec!["test/whole"], 0, &None), "{damage}");
        let [listed] = &page.damaged[..] else { panic!("{damage}: {:?}", page.damaged) };
        assert_eq!(listed.id, id);
        assert_names(&listed.error, "damaged");
        let alone = store.list(&Prefix::from(&id), None, 1).await.unwrap();
        assert_eq!((alone.conversations.len(), alone.damaged.len()), (0, 1), "the id itself, {damage}");
        assert_names(&store.describe(&id).await.unwrap_err(), "damaged");
        assert_eq!(store.describe(&conversation("whole")).await.unwrap().unwrap().revision.len(), 3);
        let counted = store.count(&Prefix::all()).await.unwrap().total();
        assert_eq!((counted.conversations, counted.exchanges), (2, 6), "{damage}");
        store.delete(&id).await.unwrap();
        let left = list(&store, "").await;
        assert_eq!((ids(&left), left.damaged.len()), (vec!["test/whole"], 0), "{damage}");
    }
}

#[tokio::test]
async fn a_listing_continues_after_damaged_conversations() {
    let (database, store, _) = damaged("").await;
    for number in 0..6 {
        say(&store, &conversation(&format!("more-{number}")), "one").await;
    }
    database.connect().execute_batch("UPDATE conversation SET bytes = -1 WHERE id % 2 = 1").unwrap();
    for limit in 1..10 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.list(&Prefix::all(), after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            after = page.next.clone();
            found.extend(page.into_entries().into_iter().map(|entry| match entry {
                Ok(listed) => (listed.id.to_string(), true),
                Err(damaged) => (damaged.id.to_string(), false),
            }));
            if after.is_none() {
                break;
            }
        }
        // The conversations were created in this order, and every other one is damaged.
        let expected = [("damaged", false), ("more-0", false), ("more-1", true), ("more-2", false), ("more-3", true)];
        let expected = expected.into_iter().chain([("more-4", false), ("more-5", true), ("whole", true)]);
        let expected: Vec<_> = expected.map(|(name, is_whole)| (format!("test/{name}"), is_whole)).collect();
        assert_eq!(found, expected, "{limit} a page");
    }
}

/// A limit for the size of a conversation must not take a damaged size for an empty log.
#[tokio::test]
async fn a_load_reports_a_damaged_size() {
    let (_database, store, id) = damaged("UPDATE conversation SET bytes = -1 WHERE id = 1").await;
    assert_names(&store.load(&id, Load::new()).await.unwrap_err(), "damaged");
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
async fn rows_whose_keys_are_no_ids_are_counted_and_erased() {
    for (key, under) in [("acme/é", "acme"), ("a b", ""), ("acme//", "acme"), ("\u{1}", ""), ("é", "")] {
        let (database, store, _) = damaged("").await;
        let sql = "UPDATE conversation SET key = ?1 WHERE id = 1";
        database.connect().execute(sql, [key]).unwrap();
        let expected: &[&str] = if under.is_empty() { &["test/whole"] } else { &[] };
        let page = list(&store, under).await;
        assert_eq!((ids(&page), page.damaged.len(), page.foreign_keys), (expected.to_vec(), 0, 1), "{key:?}");
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
