//! Recalled messages: damaged columns, and their removal.

use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{Append, Derived, Expect, HistoryStore, HistoryStoreExt, Load, PruneTo, Seq, StoreError};

use crate::support::{
    TestDatabase, append, assert_corrupt_at, conversation, damaged, recalling, rows_contain, say, texts, window,
};

/// Recalled messages that cite position 0.
const VALID: &str = r#"{"v":1,"message":{"role":"user","content":"secret"},"citations":[[0,0,1]]}"#;

#[tokio::test]
async fn damaged_recalled_messages_are_corrupt() {
    for (first, recalled) in [
        ("0", "'{secret'"),
        ("0", "'\"secret\"'"),
        ("NULL", "''"),
        ("NULL", "CAST(x'ff00ff' AS TEXT)"),
        ("0", r#"'{"v":9}'"#),
    ] {
        let sql = format!(
            "UPDATE exchange SET recalled = {recalled}, recalled_first = {first} WHERE conversation = 1 AND seq = 1"
        );
        let (_database, store, id) = damaged(&sql).await;
        let error = assert_corrupt_at(&store, &id, 1).await;
        let says = if recalled.contains("9") { "version 9" } else { "" };
        assert!(error.source().unwrap().to_string().contains(says), "{error:?}");
        // The rest of the log can be read, and the log can be continued and deleted.
        assert_eq!(store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
        assert_eq!(say(&store, &id, "four").await.seq, Seq::new(3));
        store.delete(&id).await.unwrap();
    }
}

#[tokio::test]
async fn a_cited_position_that_does_not_match_the_recalled_messages_is_corrupt() {
    for (first, recalled) in
        [("NULL", VALID), ("1", VALID), ("-1", VALID), ("1 << 40", VALID), ("0", ""), ("0", r#"{"v":1}"#)]
    {
        let recalled = if recalled.is_empty() { "NULL".to_owned() } else { format!("'{recalled}'") };
        let sql = format!(
            "UPDATE exchange SET recalled = {recalled}, recalled_first = {first} WHERE conversation = 1 AND seq = 2"
        );
        let (database, store, id) = damaged(&sql).await;
        assert_corrupt_at(&store, &id, 2).await;
        let sql = "SELECT id FROM exchange WHERE conversation = 1 AND seq = 2";
        let exchange: String = database.connect().query_row(sql, [], |row| row.get(0)).unwrap();
        let exchange = exchange.parse().unwrap();
        let error = store.load(&id, Load::new().exchange(exchange)).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(2)), "{error:?}");
    }
}

#[tokio::test]
async fn erased_recalled_messages_are_gone_from_the_rows_and_the_files() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    for text in ["one", "two"] {
        say(&store, &id, text).await;
    }
    let exchanges = [
        recalling("three", &"a-planted-secret ".repeat(2_000), &[1, 0]),
        recalling("four", "a-planted-secret", &[0]),
        recalling("five", "recalled-later", &[2]),
        recalling("six", "recalled-nothing", &[]),
    ];
    for exchange in exchanges {
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    let other = conversation("other");
    let exchange = recalling("own", "of-the-other-conversation", &[]);
    store.append(&other, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    let exchange = recalling("own", "of-the-other-one", &[0]);
    store.append(&other, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(rows_contain(&database.connect(), "a-planted-secret") && database.contains("a-planted-secret"));

    // This prune removes exchange 0 and keeps derived data. The next one removes no exchange.
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    assert!(rows_contain(&database.connect(), "a-planted-secret"));
    let pruned = store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert_eq!(pruned.unwrap().removed, 0);
    assert!(!rows_contain(&database.connect(), "a-planted-secret"));
    store.checkpoint().await.unwrap();
    assert!(!database.contains("a-planted-secret"));
    for kept in ["recalled-later", "recalled-nothing", "of-the-other-conversation", "of-the-other-one"] {
        assert!(rows_contain(&database.connect(), kept), "{kept}");
    }
    assert_eq!(texts(&window(&store, &id).await), ["two", "three", "four", "five", "six"]);
}

#[tokio::test]
async fn an_erasure_reads_no_recalled_messages() {
    let sql = "UPDATE exchange SET recalled = '{secret', recalled_first = 0 WHERE seq > 0 AND conversation = 1";
    let (database, store, id) = damaged(sql).await;
    store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    assert_eq!(texts(&window(&store, &id).await), ["two", "three"]);
    assert!(!rows_contain(&database.connect(), "secret"));
}

#[tokio::test]
async fn an_erasure_that_a_trigger_prevents_is_not_acknowledged() {
    let sql = format!(
        "UPDATE exchange SET recalled = '{VALID}', recalled_first = 0 WHERE seq = 2 AND conversation = 1;
         CREATE TRIGGER swallows BEFORE UPDATE ON exchange BEGIN SELECT RAISE(IGNORE); END"
    );
    let (database, store, id) = damaged(&sql).await;
    let before = window(&store, &id).await;
    let refused = store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }) && refused.to_string().contains("trigger"), "{refused:?}");
    assert_eq!(window(&store, &id).await, before);
    database.connect().execute_batch("DROP TRIGGER swallows").unwrap();
    store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    assert!(!rows_contain(&database.connect(), "secret"));
}

#[tokio::test]
async fn an_exchange_without_recalled_messages_has_no_index_entry() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    store.append(&id, append("one")).await.unwrap();
    store.append(&id, Append::new(Expect::AnyOrCreate, recalling("two", "cites nothing", &[]))).await.unwrap();
    store.append(&id, Append::new(Expect::AnyOrCreate, recalling("three", "cites", &[1]))).await.unwrap();
    let sql = "SELECT group_concat(seq) FROM exchange INDEXED BY exchange_recalled WHERE recalled_first IS NOT NULL";
    let indexed: String = database.connect().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(indexed, "2");
}

#[tokio::test]
async fn recalled_messages_count_for_the_size_of_a_page() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    for _ in 0..4 {
        let exchange = recalling("short", &"x".repeat(1_500_000), &[]);
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    assert_eq!(page_sizes(&store, &id, 100).await, [2, 2]);
}
