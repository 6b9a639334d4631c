//! Damaged rows of attachments.

use tower_chat_history_core::{
    Attach, ConversationId, Derived, HistoryStore, HistoryStoreExt, PruneTo, Seq, StoreError,
};
use tower_chat_history_sqlite::SqliteStore;

use crate::support::{
    TestDatabase, append, attach, attachment, attachments, conversation, damaged, name, rows_contain, texts, window,
};

/// Replaces the table by one that accepts every value, as another program could.
const WITHOUT_TYPES: &str = "DROP TABLE attachment; \
     CREATE TABLE attachment (id INTEGER PRIMARY KEY, conversation, name, start, end, body)";

/// Creates two conversations of three exchanges and three attachments each, and damages the first one with `sql`.
async fn attached(sql: &str) -> (TestDatabase, SqliteStore, ConversationId) {
    let (database, store, id) = damaged("").await;
    for id in [&id, &conversation("whole")] {
        let put = [attachment("a", 0..1, b"1"), attachment("a", 1..3, b"secret"), attachment("b", 0..3, b"3")];
        attach(&store, id, &put).await;
    }
    database.connect().execute_batch(sql).unwrap();
    (database, store, id)
}

/// Checks that attachments cannot be read, with an error that names the attachment and quotes no data.
async fn assert_damaged(store: &SqliteStore, id: &ConversationId, says: &str) {
    let error = store.attachments(id, &[name("a")], usize::MAX).await.unwrap_err();
    assert!(matches!(error, StoreError::Backend { .. }) && !error.is_retryable(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("attachment a") && text.contains(says), "{text}");
    assert!(!format!("{error:?} {text}").contains("secret"), "{error:?}");
    // The log can still be read and continued.
    assert_eq!(texts(&window(store, id).await)[..3], ["one", "two", "three"]);
    store.append(id, append("four")).await.unwrap();
}

#[tokio::test]
async fn a_range_that_is_not_valid_is_reported_with_its_positions() {
    for (damage, says) in [
        ("start = -1", "-1..3"),
        ("end = 4", "1..4, and the next position of the log is 3"),
        ("end = 1", "1..1"),
        ("start = 7", "7..3"),
        ("end = -9223372036854775808", "1..-9223372036854775808"),
        ("end = 9223372036854775807", "1..9223372036854775807"),
    ] {
        let sql = format!("UPDATE attachment SET {damage} WHERE conversation = 1 AND name = 'a' AND start = 1");
        let (_database, store, id) = attached(&sql).await;
        assert_damaged(&store, &id, says).await;
        assert_eq!(attachments(&store, &id, "b").await, [attachment("b", 0..3, b"3")]);
        assert_eq!(attachments(&store, &conversation("whole"), "a").await.len(), 2);
    }
}

#[tokio::test]
async fn data_that_is_too_large_is_reported_with_its_size() {
    let sql = "UPDATE attachment SET body = zeroblob(4194369) WHERE conversation = 1 AND start = 1";
    let (_database, store, id) = attached(sql).await;
    assert_damaged(&store, &id, "1..3 is damaged: it has 4194369 bytes").await;
}

#[tokio::test]
async fn columns_of_other_types_are_reported() {
    for row in [
        "'a', 'secret', 3, x'00'",
        "'a', NULL, 3, x'00'",
        "'a', 0, 'secret', x'00'",
        "'a', 0, 1.5, x'00'",
        "'a', 0, 3, 'secret'",
        "'a', 0, 3, NULL",
        "'a', 0, 3, 7",
    ] {
        let sql = format!("{WITHOUT_TYPES}; INSERT INTO attachment VALUES (9, 1, {row})");
        let (_database, store, id) = attached(&sql).await;
        assert_damaged(&store, &id, "wrong type").await;
        assert_eq!(attachments(&store, &id, "b").await, []);
    }
}

#[tokio::test]
async fn data_beyond_the_limit_is_not_read() {
    let sql = format!(
        "{WITHOUT_TYPES}; INSERT INTO attachment VALUES (1, 1, 'a', 0, 1, x'01'), (2, 1, 'a', 1, 3, 'not bytes')"
    );
    let (_database, store, id) = attached(&sql).await;
    for limit in [1, 9] {
        let read = store.attachments(&id, &[name("a")], limit).await.unwrap();
        assert_eq!((read.attachments, read.more), (vec![attachment("a", 0..1, &[1])], true));
    }
    assert!(store.attachments(&id, &[name("a")], 10).await.is_err());
}

#[tokio::test]
async fn a_damaged_attachment_can_be_replaced() {
    let sql = "UPDATE attachment SET end = 99 WHERE conversation = 1 AND name = 'a' AND start = 1";
    let (_database, store, id) = attached(sql).await;
    let incarnation = store.read(&id, Seq::FIRST, 0).await.unwrap().revision.unwrap().incarnation();
    let new = attachment("a", 1..2, b"new");
    store.attach(&id, incarnation, &[new.key()], std::slice::from_ref(&new)).await.unwrap();
    assert_eq!(attachments(&store, &id, "a").await, [attachment("a", 0..1, b"1"), new]);
}

#[tokio::test]
async fn removals_include_attachments_whose_range_is_not_valid() {
    for damage in ["start = -1", "end = 1", "end = 99", "end = -5", "start = 4"] {
        let sql = format!("UPDATE attachment SET {damage} WHERE name = 'a' AND start = 1");
        for truncates in [true, false] {
            let (database, store, id) = attached(&sql).await;
            let whole = conversation("whole");
            for id in [&id, &whole] {
                if truncates {
                    store.conversation(id).truncate(Seq::new(2)).await.unwrap();
                    assert_eq!(attachments(&store, id, "a").await, [attachment("a", 0..1, b"1")], "{damage}");
                } else if damage != "end = 99" {
                    store.conversation(id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
                    assert_eq!(attachments(&store, id, "a").await, [], "{damage}");
                }
                store.delete(id).await.unwrap();
            }
            assert!(!rows_contain(&database.connect(), "secret"), "{damage}");
        }
    }
}

#[tokio::test]
async fn an_attachment_that_a_trigger_swallows_is_not_acknowledged() {
    let trigger = "CREATE TRIGGER swallows BEFORE INSERT ON attachment BEGIN SELECT RAISE(IGNORE); END";
    let (_database, store, id) = attached(trigger).await;
    let incarnation = store.read(&id, Seq::FIRST, 0).await.unwrap().revision.unwrap().incarnation();
    let (stored, new) = (attachment("a", 0..1, b"1"), attachment("c", 0..1, b"new"));
    let refused = store.attach(&id, incarnation, &[stored.key()], &[stored.clone(), new]).await.unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }) && refused.to_string().contains("trigger"), "{refused:?}");
    assert_eq!(attachments(&store, &id, "a").await[0], stored, "the removal was rolled back");
    store.attach(&id, incarnation, &[], &[stored]).await.unwrap();
}

#[tokio::test]
async fn a_picked_exchange_that_is_damaged_is_corrupt() {
    for sql in
        ["DELETE FROM exchange", "UPDATE exchange SET body = '{secret'", "UPDATE exchange SET recalled = '{secret'"]
    {
        let (_database, store, id) = damaged(&format!("{sql} WHERE conversation = 1 AND seq = 1")).await;
        let error = store.pick(&id, &[0, 1, 2].map(Seq::new)).await.unwrap_err();
        let named = matches!(&error, StoreError::Corrupt { conversation, seq, .. }
            if *conversation == id && *seq == Seq::new(1));
        assert!(named && !format!("{error:?}").contains("secret"), "{error:?}");
        assert_eq!(store.pick(&id, &[0, 2].map(Seq::new)).await.unwrap().exchanges.len(), 2);
    }
}
