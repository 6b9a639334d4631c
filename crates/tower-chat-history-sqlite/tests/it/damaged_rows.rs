//! Rows with impossible numbers, and records in the rows of other exchanges.

use crate::support::{TestDatabase, append, assert_corrupt_at, compact, conversation, damaged, say, texts, window};
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, ConversationId, Exchange, ExchangeId, Expect, HistoryStore,
    HistoryStoreExt, Load, LoadLimit, Loaded, Profile, Seq, StoreError, Window,
};
use tower_chat_history_sqlite::SqliteStore;

/// Assignments of impossible numbers to the row of a conversation of three exchanges.
const COUNTERS: [&str; 14] = [
    "len = 2",
    "len = 4",
    "len = 0",
    "len = -1",
    "len = 1 << 40",
    "version = 2",
    "version = -3",
    "version = 4",
    "first = 3",
    "first = 9",
    "first = -1",
    "len = 2, version = 2",
    "len = 4, version = 4",
    "first = 1",
];

#[tokio::test]
async fn loads_and_reads_fail_with_damaged_counters_of_a_conversation() {
    for damage in COUNTERS.into_iter().chain(["incarnation = x'00'", "incarnation = x''"]) {
        let (_database, store, id) = damaged(&format!("UPDATE conversation SET {damage} WHERE id = 1")).await;
        let read = store.conversation(&id).messages().await.unwrap_err();
        let load = store.load(&id, Load::new()).await.unwrap_err();
        for error in [read, load] {
            let named = matches!(&error, StoreError::Corrupt { conversation, .. } if *conversation == id);
            assert!(named, "{damage}: {error:?}");
        }
        assert_eq!(texts(&window(&store, &conversation("whole")).await), ["one", "two", "three"]);
        store.delete(&id).await.unwrap();
        assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
        assert_eq!(say(&store, &id, "again").await.seq, Seq::FIRST);
        assert_eq!(texts(&window(&store, &conversation("whole")).await), ["one", "two", "three"]);
    }
}

/// Checks that a load and a read return the stored history, or an error that names the conversation. Returns true if
/// they return the history.
async fn assert_whole_or_corrupt(store: &SqliteStore, id: &ConversationId, whole: &Window, damage: &str) -> bool {
    let load = store.load(id, Load::new()).await;
    let read = store.conversation(id).exchanges().await;
    for error in load.as_ref().err().into_iter().chain(read.as_ref().err()) {
        assert!(matches!(error, StoreError::Corrupt { conversation, .. } if conversation == id), "{damage}: {error:?}");
    }
    let loaded = load.is_ok();
    assert_eq!(loaded, read.is_ok(), "{damage}");
    if let (Ok(load), Ok(read)) = (load, read) {
        assert_eq!((load, &read), (Loaded::Window(whole.clone()), &whole.exchanges), "{damage}");
    }
    loaded
}

#[tokio::test]
async fn damaged_numbers_of_a_conversation_never_change_its_history() {
    let (database, store, id) = damaged("").await;
    let (whole, other) = (window(&store, &id).await, database.connect());
    other.execute_batch("PRAGMA synchronous = off").unwrap();
    let mut accepted = Vec::new();
    for len in -1..=5 {
        for version in -1..=5 {
            for first in -1..=5 {
                let sql = "UPDATE conversation SET len = ?1, version = ?2, first = ?3 WHERE id = 1";
                other.execute(sql, [len, version, first]).unwrap();
                if assert_whole_or_corrupt(&store, &id, &whole, &format!("{len} {version} {first}")).await {
                    accepted.push((len, version, first));
                }
            }
        }
    }
    assert_eq!(accepted, [(3, 3, 0)]);
}

#[tokio::test]
async fn damaged_numbers_of_an_exchange_never_change_its_history() {
    let (database, store, id) = damaged("").await;
    let (whole, other) = (window(&store, &id).await, database.connect());
    other.execute_batch("PRAGMA synchronous = off").unwrap();
    for seq in 0..3 {
        for column in ["messages", "bytes", "media", "continues"] {
            let mut accepted = 0;
            let sql = format!("SELECT {column} FROM exchange WHERE conversation = 1 AND seq = {seq}");
            let before: Option<i64> = other.query_row(&sql, [], |row| row.get(0)).unwrap();
            let update = format!("UPDATE exchange SET {column} = ?1 WHERE conversation = 1 AND seq = {seq}");
            for number in [i64::MIN, -1, 0, 1, 2, 3, 66, 68, 4 << 20, i64::MAX] {
                other.execute(&update, [number]).unwrap();
                let damage = format!("{column} = {number} at {seq}");
                accepted += u8::from(assert_whole_or_corrupt(&store, &id, &whole, &damage).await);
            }
            assert!(accepted <= 1);
            other.execute(&update, [before]).unwrap();
            assert!(assert_whole_or_corrupt(&store, &id, &whole, "nothing").await);
        }
    }
}

#[tokio::test]
async fn an_append_does_not_overwrite_exchanges_that_damaged_counters_hide() {
    let (database, store, id) = damaged("UPDATE conversation SET len = 2, version = 2 WHERE id = 1").await;
    let refused = store.append(&id, append("four")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Corrupt { seq, .. } if *seq == Seq::new(2)), "{refused:?}");
    // The hidden exchange is not treated as recorded, either.
    let hidden = store_exchange_id(&database, 2);
    let again = Append::new(Expect::AnyOrCreate, Exchange::new(hidden.clone(), []));
    let refused = store.append(&id, again).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
    let refused = store.load(&id, Load::new().exchange(hidden)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
}

fn store_exchange_id(database: &TestDatabase, seq: u64) -> ExchangeId {
    let sql = "SELECT id FROM exchange WHERE conversation = 1 AND seq = ?1";
    let id: String = database.connect().query_row(sql, [seq.cast_signed()], |row| row.get(0)).unwrap();
    ExchangeId::new(id).unwrap()
}

#[tokio::test]
async fn an_exchange_before_the_beginning_of_a_pruned_log_is_corrupt() {
    let (database, store, id) = damaged("").await;
    store.conversation(&id).keep_last_turns(1).await.unwrap();
    let sql = "UPDATE exchange SET place = (1 << 32) + 1 WHERE conversation = 2 AND seq = 2";
    database.connect().execute_batch(sql).unwrap();
    for error in [store.load(&id, Load::new()).await.unwrap_err(), store.read(&id, Seq::FIRST, 9).await.unwrap_err()] {
        assert!(matches!(&error, StoreError::Corrupt { seq, .. } if *seq == Seq::new(1)), "{error:?}");
    }
}

#[tokio::test]
async fn a_record_of_another_exchange_is_corrupt() {
    for position in [0, 1, 2] {
        let sql = format!(
            "UPDATE exchange SET body = (SELECT body FROM exchange WHERE conversation = 2 AND seq = {position})
             WHERE conversation = 1 AND seq = {position}"
        );
        let (database, store, id) = damaged(&sql).await;
        assert_corrupt_at(&store, &id, position).await;
        let again = Load::new().exchange(store_exchange_id(&database, position));
        let error = store.load(&id, again).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn columns_that_do_not_match_the_record_are_corrupt() {
    let damages = ["messages = 3", "messages = -2", "bytes = bytes - 1", "bytes = -1", "media = 1", "media = -1"];
    for damage in damages.into_iter().chain(["continues = 0", "id = 'other'"]) {
        let sql = format!("UPDATE exchange SET {damage} WHERE conversation = 1 AND seq = 1");
        let (_database, store, id) = damaged(&sql).await;
        assert_corrupt_at(&store, &id, 1).await;
    }
}

#[tokio::test]
async fn a_damaged_record_that_the_limit_cuts_off_fails_no_load() {
    // Exchange 1 belongs to the turn of exchange 0.
    let sql = "UPDATE exchange SET continues = 0, body = replace(body, '\"v\":1', '\"v\":x')
               WHERE conversation = 1 AND seq = 1";
    let (_database, store, id) = damaged(sql).await;
    assert_corrupt_at(&store, &id, 1).await;
    let messages = window(&store, &conversation("whole")).await.exchanges[0].exchange.messages.len();
    let limit = LoadLimit::new(2 * messages, usize::MAX).unwrap();
    let Loaded::Window(window) = store.load(&id, Load::new().limit(limit)).await.unwrap() else { unreachable!() };
    assert_eq!((texts(&window), window.truncated), (vec!["three".to_owned()], true));
}

#[tokio::test]
async fn a_prune_refuses_damaged_counters() {
    for number in [-2, 1_000] {
        let sql = format!(
            "UPDATE exchange SET messages = {number} WHERE conversation = 1 AND seq = 1;
             UPDATE conversation SET first = 9 WHERE id = 2"
        );
        assert_prune_is_refused(&sql).await;
    }
}

async fn assert_prune_is_refused(sql: &str) {
    let (_database, store, id) = damaged(sql).await;
    let refused = store.conversation(&id).keep_last_messages(4).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
    let refused = store.conversation(&conversation("whole")).keep_last_turns(1).await.unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_compaction_that_does_not_fit_its_log_is_corrupt() {
    for (version, window_start) in [(1, 3), (1, i64::MAX), (1, -1), (0, 1), (-1, 1)] {
        let (database, store, id) = damaged("").await;
        let sql = "INSERT INTO compaction VALUES (1, 'default', ?1, ?2, x'00', CAST('secret' AS BLOB))";
        database.connect().execute(sql, (version, window_start)).unwrap();
        let load = store.load(&id, Load::new()).await.unwrap_err();
        let reported = matches!(load, StoreError::CorruptCompaction { .. });
        assert!(reported && !format!("{load:?}").contains("secret"), "{version} {window_start}: {load:?}");
        assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 6);
    }
}

#[tokio::test]
async fn a_damaged_compaction_is_an_error_of_its_profile_only() {
    let (_database, store, id) = damaged("INSERT INTO compaction VALUES (1, 'default', 1, 9, x'00', NULL)").await;
    let error = store.load(&id, Load::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{error:?}");
    let other = Load::new().profile(Profile::new("other").unwrap());
    assert!(matches!(store.load(&id, other).await.unwrap(), Loaded::Window(_)));
}

#[tokio::test]
async fn an_append_is_stored_even_if_the_compaction_that_it_replaces_is_damaged() {
    for row in ["-1, 1", "0, 1", "1, 99", "1, -1"] {
        let sql = format!("INSERT INTO compaction VALUES (1, 'default', {row}, x'00', NULL)");
        let (_database, store, id) = damaged(&sql).await;
        let incarnation = store.read(&id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation();
        for replaces in [CompactionVersion::NONE, CompactionVersion::new(1)] {
            let mut compact = compact("default", 1, None);
            compact.replaces = replaces;
            let refused = store.compact(&id, incarnation, compact.clone()).await.unwrap_err();
            assert!(matches!(refused, StoreError::CorruptCompaction { .. }), "{row}: {refused:?}");
            let appended = store.append(&id, append("paid").compact(compact)).await.unwrap();
            assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{row}");
        }
        assert_eq!(store.conversation(&id).messages().await.unwrap().len(), 10);
    }
}

#[tokio::test]
async fn invalid_and_newer_record_versions_are_distinguished() {
    for (version, says) in [("0", "malformed"), ("2", "version 2"), ("4294967296", "version 4294967296")] {
        let sql = format!(
            "UPDATE exchange SET body = replace(body, '\"v\":1', '\"v\":{version}')
             WHERE conversation = 1 AND seq = 1"
        );
        let (_database, store, id) = damaged(&sql).await;
        let error = assert_corrupt_at(&store, &id, 1).await;
        assert!(error.source().unwrap().to_string().contains(says), "{error:?}");
    }
}
