//! Damaged records and compactions.

use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, Derived, HistoryStore, HistoryStoreExt, Load, PruneTo, Seq, StoreError,
};

use crate::support::{TestDatabase, append, assert_corrupt_at, compact, conversation, damaged, say, texts, window};

/// Stores a compaction whose window would start after the end of the log.
const DAMAGED_COMPACTION: &str =
    "INSERT INTO compaction VALUES (1, 'default', 1, 9, CAST('secret' AS BLOB), CAST('secret' AS BLOB))";

#[tokio::test]
async fn a_malformed_record_is_corrupt() {
    let sql = "UPDATE exchange SET body = '{secret' WHERE seq = 1 AND conversation = 1";
    let (_database, store, id) = damaged(sql).await;
    assert_corrupt_at(&store, &id, 1).await;
    // The rest of the log can still be read, and the conversation can be deleted.
    assert_eq!(store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
    store.delete(&id).await.unwrap();
    assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
}

#[tokio::test]
async fn a_record_that_is_not_text_is_corrupt() {
    let sql = "UPDATE exchange SET body = CAST(x'ff00ff' AS TEXT) WHERE seq = 2 AND conversation = 1";
    let (_database, store, id) = damaged(sql).await;
    assert_corrupt_at(&store, &id, 2).await;
}

#[tokio::test]
async fn a_record_of_a_newer_version_is_reported_with_its_version() {
    let sql = r#"UPDATE exchange SET body = '{"v":9}' WHERE seq = 0 AND conversation = 1"#;
    let (_database, store, id) = damaged(sql).await;
    let error = assert_corrupt_at(&store, &id, 0).await;
    assert!(error.source().unwrap().to_string().contains("version 9"), "{error:?}");
}

#[tokio::test]
async fn a_missing_record_is_corrupt() {
    for position in [0, 1, 2] {
        let sql = format!("DELETE FROM exchange WHERE seq = {position} AND conversation = 1");
        let (_database, store, id) = damaged(&sql).await;
        assert_corrupt_at(&store, &id, position).await;
    }
}

#[tokio::test]
async fn a_damaged_compaction_is_reported_without_its_text() {
    let (_database, store, id) = damaged(DAMAGED_COMPACTION).await;
    let error = store.load(&id, Load::new()).await.unwrap_err();
    assert!(
        matches!(error, StoreError::CorruptCompaction { .. }) && !format!("{error:?}").contains("secret"),
        "{error:?}"
    );
    assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 6);
    window(&store, &conversation("whole")).await;
}

#[tokio::test]
async fn appends_work_with_a_damaged_compaction() {
    for replaces in [0, 1, 77] {
        let (_database, store, id) = damaged(DAMAGED_COMPACTION).await;
        let mut compact = compact("default", 1, None);
        compact.replaces = CompactionVersion::new(replaces);
        let appended = store.append(&id, append("four").compact(compact)).await.unwrap();
        assert_eq!((appended.duplicate, appended.compaction), (false, Some(CompactOutcome::Kept(None))));
        assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 8);
    }
}

#[tokio::test]
async fn a_truncation_removes_damaged_compactions() {
    let sql = "INSERT INTO compaction VALUES (1, 'default', 1, 9, x'ff00ff', x'ff'), (1, 'other', 0, 0, x'00', NULL),
               (2, 'default', 1, 9, x'ff00ff', x'ff');
               UPDATE exchange SET body = '{secret' WHERE seq = 2 AND conversation = 1";
    let (database, store, id) = damaged(sql).await;
    let truncated = store.conversation(&id).truncate(Seq::new(2)).await.unwrap();
    assert_eq!(truncated.removed, 1);
    assert_eq!(texts(&window(&store, &id).await), ["one", "two"]);
    let left = "SELECT count(*), sum(conversation) FROM compaction";
    let left: (i64, i64) = database.connect().query_row(left, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(left, (1, 2), "the other conversation's compaction is kept");
}

#[tokio::test]
async fn truncated_text_is_erased_from_the_files() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("cut"));
    for text in ["stays", "a-secret-that-was-said", "another-secret"] {
        say(&store, &id, text).await;
    }
    store.checkpoint().await.unwrap();
    assert!(database.contains("a-secret-that-was-said"));
    store.conversation(&id).truncate(Seq::new(1)).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(
        database.contains("stays")
            && !database.contains("a-secret-that-was-said")
            && !database.contains("another-secret")
    );
}

#[tokio::test]
async fn a_missing_record_of_a_pruned_log_is_corrupt() {
    for position in [1, 2] {
        let (database, store, id) = damaged("").await;
        store.conversation(&id).keep_last_turns(2).await.unwrap();
        let sql = format!("DELETE FROM exchange WHERE seq = {position} AND conversation = 1");
        database.connect().execute_batch(&sql).unwrap();
        assert_corrupt_at(&store, &id, position).await;
    }
}

#[tokio::test]
async fn a_prune_reads_no_records() {
    let sql = "UPDATE exchange SET body = '{secret' WHERE seq < 2 AND conversation = 1";
    let (_database, store, id) = damaged(sql).await;
    assert_eq!(store.conversation(&id).keep_last_turns(1).await.unwrap(), 2);
    assert_eq!(texts(&window(&store, &id).await), ["three"]);
}

#[tokio::test]
async fn an_erasing_prune_removes_the_text_of_damaged_compactions() {
    let sql = "INSERT INTO compaction VALUES (1, 'default', 1, 9, x'00', CAST('secret' AS BLOB)),
               (1, 'other', -1, 9, x'00', CAST('secret' AS BLOB)), (2, 'default', 1, 9, x'00', CAST('secret' AS BLOB))";
    let (database, store, id) = damaged(sql).await;
    let left = || {
        let left = "SELECT count(derived) FROM compaction";
        database.connect().query_row(left, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    store.conversation(&id).keep_last_turns(2).await.unwrap();
    assert_eq!(left(), 3, "a prune that keeps derived data removes none");
    store.conversation(&id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
    assert_eq!(left(), 1, "the other conversation's compaction is kept");
    assert_eq!(texts(&window(&store, &id).await), ["two", "three"]);
}

#[tokio::test]
async fn pruned_text_is_erased_from_the_files() {
    let database = TestDatabase::new();
    let (store, id) = (database.open().await, conversation("pruned"));
    for text in ["a-secret-that-was-said", "another-secret", "stays"] {
        say(&store, &id, text).await;
    }
    store.checkpoint().await.unwrap();
    assert!(database.contains("a-secret-that-was-said"));
    store.conversation(&id).keep_last_turns(1).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(
        database.contains("stays")
            && !database.contains("a-secret-that-was-said")
            && !database.contains("another-secret")
    );
}

fn assert_not_written<T: std::fmt::Debug>(answer: Result<T, StoreError>, change: &str) {
    let error = answer.unwrap_err();
    let StoreError::Backend { source } = &error else { panic!("{change}: {error:?}") };
    assert!(source.to_string().contains("trigger"), "{change}: {error:?}");
}

#[tokio::test]
async fn an_exchange_that_a_trigger_swallows_is_not_acknowledged() {
    for change in ["INSERT ON exchange", "INSERT ON conversation", "UPDATE ON conversation"] {
        let trigger = format!("CREATE TRIGGER swallows BEFORE {change} BEGIN SELECT RAISE(IGNORE); END");
        let (database, store, id) = damaged(&trigger).await;
        let (new, before) = (conversation("new"), window(&store, &id).await);
        for append in [append("four"), append("four").compact(compact("default", 1, None))] {
            if change != "INSERT ON conversation" {
                assert_not_written(store.append(&id, append.clone()).await, change);
            }
            if change != "UPDATE ON conversation" {
                assert_not_written(store.append(&new, append).await, change);
            }
        }
        database.connect().execute_batch("DROP TRIGGER swallows").unwrap();
        assert_eq!(window(&store, &id).await, before, "{change}");
        assert!(store.load(&new, Load::new()).await.unwrap().is_absent(), "{change}");
        assert_eq!(say(&store, &id, "four").await.seq, Seq::new(3), "{change}");
        assert_eq!(texts(&window(&store, &conversation("whole")).await), ["one", "two", "three"]);
    }
}

#[tokio::test]
async fn a_compaction_that_a_trigger_swallows_is_not_acknowledged() {
    let trigger = "CREATE TRIGGER swallows BEFORE INSERT ON compaction BEGIN SELECT RAISE(IGNORE); END";
    let (_database, store, id) = damaged(trigger).await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    let compact = compact("default", 1, None);
    assert_not_written(store.compact(&id, incarnation, compact.clone()).await, trigger);
    assert_not_written(store.append(&id, append("four").compact(compact)).await, trigger);
    let after = window(&store, &id).await;
    assert_eq!((after.compaction, after.exchanges.len()), (None, 3));
}
