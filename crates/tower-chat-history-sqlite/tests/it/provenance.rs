//! Provenances: damaged columns, and their removal.

use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    Append, Cut, Derived, Digest, Exchange, Expect, HistoryStore, HistoryStoreExt, Load, Origin, PromptDigests,
    Provenance, PruneTo, Seq, StoreError,
};

use crate::support::{
    TestDatabase, append, assert_corrupt_at, conversation, damaged, exchange, rows_contain, say, texts, window,
};

/// Returns an exchange whose reply was made by this provider.
fn made_by(provider: &str) -> Exchange {
    let mut exchange = exchange("asks");
    let origin = Origin::unknown().provider(provider);
    let [head, prompt] = ["head", "prompt"].map(|text| Digest::of(text.as_bytes()));
    let cut = Cut::window_from(Seq::new(1)).positions;
    exchange.provenance = Some(Provenance::new(1, cut, PromptDigests::new(head, prompt), origin));
    exchange
}

#[tokio::test]
async fn damaged_provenances_are_corrupt() {
    for provenance in ["'{secret'", "'\"secret\"'", "''", "CAST(x'ff00ff' AS TEXT)", "'[9]'", "'[1]'"] {
        let sql = format!("UPDATE exchange SET provenance = {provenance} WHERE conversation = 1 AND seq = 1");
        let (database, store, id) = damaged(&sql).await;
        let error = assert_corrupt_at(&store, &id, 1).await;
        let says = if provenance.contains("9") { "version 9" } else { "" };
        assert!(error.source().unwrap().to_string().contains(says), "{error:?}");
        let sql = "SELECT id FROM exchange WHERE conversation = 1 AND seq = 1";
        let exchange: String = database.connect().query_row(sql, [], |row| row.get(0)).unwrap();
        let error = store.load(&id, Load::new().exchange(exchange.parse().unwrap())).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(1)), "{error:?}");
        // The rest of the log can be read, and the log can be continued and deleted.
        assert_eq!(store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
        assert_eq!(say(&store, &id, "four").await.seq, Seq::new(3));
        store.delete(&id).await.unwrap();
    }
}

#[tokio::test]
async fn erased_provenances_are_gone_from_the_rows_and_the_files() {
    let database = TestDatabase::new();
    let (store, id, other) = (database.open().await, conversation("a"), conversation("b"));
    for text in ["one", "two"] {
        say(&store, &id, text).await;
    }
    for exchange in [made_by(&"a-planted-secret ".repeat(2_000)), made_by("a-planted-secret")] {
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    store.append(&other, append("one")).await.unwrap();
    store.append(&other, Append::new(Expect::AnyOrCreate, made_by("of-the-other-conversation"))).await.unwrap();
    store.checkpoint().await.unwrap();

    // This prune removes exchange 0 and keeps derived data. The next one removes no exchange.
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    assert!(rows_contain(&database.connect(), "a-planted-secret") && database.contains("a-planted-secret"));
    let pruned = store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert_eq!(pruned.unwrap().removed, 0);
    assert!(!rows_contain(&database.connect(), "a-planted-secret"));
    store.checkpoint().await.unwrap();
    assert!(!database.contains("a-planted-secret"));
    assert!(rows_contain(&database.connect(), "of-the-other-conversation"));
    assert_eq!(texts(&window(&store, &id).await), ["two", "asks", "asks"]);
}

#[tokio::test]
async fn an_erasure_reads_no_provenances() {
    let (database, store, id) = damaged("UPDATE exchange SET provenance = '{secret' WHERE conversation = 1").await;
    store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    assert_eq!(texts(&window(&store, &id).await), ["two", "three"]);
    assert!(!rows_contain(&database.connect(), "secret"));
}

#[tokio::test]
async fn an_erasure_of_provenances_that_a_trigger_prevents_is_not_acknowledged() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    say(&store, &id, "one").await;
    store.append(&id, Append::new(Expect::AnyOrCreate, made_by("a-planted-secret"))).await.unwrap();
    let trigger = "CREATE TRIGGER swallows BEFORE UPDATE ON exchange BEGIN SELECT RAISE(IGNORE); END";
    database.connect().execute_batch(trigger).unwrap();
    let before = window(&store, &id).await;
    let refused = store.conversation(&id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }) && refused.to_string().contains("trigger"), "{refused:?}");
    assert_eq!(window(&store, &id).await, before);
    database.connect().execute_batch("DROP TRIGGER swallows").unwrap();
    store.conversation(&id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert!(!rows_contain(&database.connect(), "a-planted-secret"));
}

#[tokio::test]
async fn provenances_count_for_the_size_of_a_page() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("a"));
    for _ in 0..4 {
        let exchange = made_by(&"x".repeat(1_500_000));
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    assert_eq!(page_sizes(&store, &id, 100).await, [2, 2]);
}
