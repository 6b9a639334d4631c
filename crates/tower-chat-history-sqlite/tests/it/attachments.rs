//! Attachments: removal, erasure, cost.

use tower_chat_history_core::{
    Attach, Attachment, AttachmentError, Derived, Expect, HistoryStore, HistoryStoreExt, PruneTo, Seq, StoreError,
    Truncate,
};

use crate::support::{
    TestDatabase, append, attach, attachment, attachments, conversation, enqueue, exchange, name, rows_contain, say,
    texts, window,
};

fn rows(database: &TestDatabase) -> i64 {
    database.connect().query_row("SELECT count(*) FROM attachment", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_conversation_with_the_number_of_a_deleted_one_has_no_attachments() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let number =
        || -> i64 { database.connect().query_row("SELECT max(id) FROM conversation", [], |row| row.get(0)).unwrap() };
    say(&store, &conversation("stays"), "x").await;
    attach(&store, &conversation("stays"), &[attachment("a", 0..1, b"stays")]).await;
    for truncates in [true, false] {
        let (old, new) = (conversation(&format!("old{truncates}")), conversation(&format!("new{truncates}")));
        say(&store, &old, "x").await;
        let was = number();
        attach(&store, &old, &[attachment("a", 0..1, b"secret"), attachment("b", 0..1, b"secret")]).await;
        if truncates {
            store.conversation(&old).truncate(Seq::FIRST).await.unwrap();
        } else {
            store.delete(&old).await.unwrap();
        }
        assert!(!rows_contain(&database.connect(), "secret"));
        say(&store, &new, "x").await;
        assert_eq!(number(), was, "the number is used again");
        assert_eq!(attachments(&store, &new, "a").await, []);
        assert_eq!(attachments(&store, &old, "a").await, []);
        store.delete(&new).await.unwrap();
    }
    assert_eq!(attachments(&store, &conversation("stays"), "a").await, [attachment("a", 0..1, b"stays")]);
}

#[tokio::test]
async fn erased_attachments_are_gone_from_the_rows_and_the_files() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    for text in ["one", "two", "three"] {
        say(&store, &id, text).await;
    }
    let large = b"a-planted-secret ".repeat(20_000);
    let kept = attachment("terms", 2..3, b"of-the-third");
    attach(&store, &id, &[attachment("terms", 0..2, &large), attachment("small", 1..3, b"a-planted-secret")]).await;
    attach(&store, &id, std::slice::from_ref(&kept)).await;
    store.checkpoint().await.unwrap();
    assert!(rows_contain(&database.connect(), "a-planted-secret") && database.contains("a-planted-secret"));

    // This prune removes exchanges and keeps derived data. The next one removes no exchange.
    store.conversation(&id).keep_last_turns(1).await.unwrap();
    assert!(rows_contain(&database.connect(), "a-planted-secret"));
    let pruned = store.conversation(&id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert_eq!(pruned.unwrap().removed, 0);
    assert!(!rows_contain(&database.connect(), "a-planted-secret"));
    store.checkpoint().await.unwrap();
    assert!(!database.contains("a-planted-secret"));
    assert_eq!(attachments(&store, &id, "terms").await, [kept]);
}

#[tokio::test]
async fn calls_of_a_batch_are_refused_one_by_one() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    let revision = say(&store, &id, "one").await.revision;
    let incarnation = revision.incarnation();
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (good, bad) = ([attachment("a", 0..1, b"1")], [attachment("b", 0..1, b"2"), attachment("b", 1..3, b"3")]);
    let keys = [good[0].key()];
    let refused = enqueue(store.attach(&id, incarnation, &[], &bad));
    let stored = enqueue(store.attach(&id, incarnation, &[], &good));
    // The removal of the same key is rolled back with the rest of the call.
    let refused_too = enqueue(store.attach(&id, incarnation, &keys, &bad));
    let appended = enqueue(store.append(&id, append("two")));
    let truncated = enqueue(store.truncate(&id, revision, Seq::FIRST));
    other.execute_batch("COMMIT").unwrap();
    for refused in [refused, refused_too] {
        let error = refused.await.unwrap_err();
        let beyond = AttachmentError::BeyondLog { end: Seq::new(3), len: 1 };
        assert!(matches!(&error, StoreError::Attachment(given) if *given == beyond), "{error:?}");
    }
    stored.await.unwrap();
    appended.await.unwrap();
    assert!(matches!(truncated.await.unwrap_err(), StoreError::Conflict { .. }));
    assert_eq!(attachments(&store, &id, "a").await, good);
    assert_eq!(rows(&database), 1);
    assert_eq!(texts(&window(&store, &id).await), ["one", "two"]);
}

#[tokio::test]
async fn two_stores_store_the_same_attachment_once() {
    let database = TestDatabase::new();
    let (a, b) = (database.open().await, database.open().await);
    let id = conversation("shared");
    let incarnation = say(&a, &id, "one").await.revision.incarnation();
    for round in 0..20 {
        let (one, other) = (attachment(&format!("n{round}"), 0..1, b"a"), attachment(&format!("n{round}"), 0..1, b"b"));
        let (first, second) = tokio::join!(
            a.attach(&id, incarnation, &[], std::slice::from_ref(&one)),
            b.attach(&id, incarnation, &[], std::slice::from_ref(&other))
        );
        first.unwrap();
        second.unwrap();
        let stored = attachments(&a, &id, one.name.as_str()).await;
        assert!(stored == [one] || stored == [other], "{stored:?}");
    }
    assert_eq!(rows(&database), 20);
}

#[tokio::test]
async fn picked_exchanges_are_found_without_a_walk() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    for turn in 0..50 {
        say(&store, &id, &turn.to_string()).await;
    }
    let before = store.stats();
    let page = store.pick(&id, &[3, 40, 49, 50].map(Seq::new)).await.unwrap();
    let after = store.stats();
    let positions: Vec<_> = page.exchanges.iter().map(|recorded| recorded.seq.get()).collect();
    assert_eq!(positions, [3, 40, 49]);
    assert_eq!((after.rows_read - before.rows_read, after.exchanges_read - before.exchanges_read), (3, 3));
}

#[tokio::test]
async fn keys_of_positions_that_no_log_has_are_removed_without_an_effect() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    let stored = [attachment("a", 0..1, b"1")];
    attach(&store, &id, &stored).await;
    let keys = [1, u64::from(u32::MAX), u64::MAX].map(|at| attachment("a", at..at, b"").key());
    store.attach(&id, incarnation, &keys, &[]).await.unwrap();
    assert_eq!(attachments(&store, &id, "a").await, stored);
}

#[tokio::test]
async fn the_largest_attachments_are_stored_by_one_call() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    let exchange = exchange("x");
    store.append(&id, tower_chat_history_core::Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    let put: Vec<_> = (0..8).map(|n| attachment(&format!("n{n}"), 0..1, &vec![n; Attachment::MAX_BYTES])).collect();
    attach(&store, &id, &put).await;
    let names: Vec<_> = (0..8).map(|n| name(&format!("n{n}"))).collect();
    let read = store.attachments(&id, &names, 8 * Attachment::MAX_BYTES).await.unwrap();
    assert!(read.attachments == put && !read.more);
    let read = store.attachments(&id, &names, 8 * Attachment::MAX_BYTES - 1).await.unwrap();
    assert!(read.attachments == put[..7] && read.more);
}
