//! A file that is refused is left as it is, byte for byte, and so are the files beside it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use tower_chat_history_sqlite::{OpenError, SqliteStore};

use crate::support::{Place, conversation, say, texts, window};

/// All files of a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Copies a database that is in use, with some of the files beside it: as a crash would leave them.
fn crashed(from: &Place, endings: &[&str]) -> Place {
    let to = Place::new();
    for ending in endings {
        let beside = |place: &Place| place.path.with_file_name(format!("chat.db{ending}"));
        fs::copy(beside(from), beside(&to)).unwrap();
    }
    to
}

/// Checks that the database is refused for that reason, and that nothing has changed in its directory.
async fn is_left_alone(place: &Place, because: fn(&OpenError) -> bool) {
    let before = files(place.directory.path());
    for _ in 0..2 {
        let error = SqliteStore::open(&place.path).await.unwrap_err();
        assert!(because(&error), "{error:?}");
        // Beside the names, the bytes are compared, and not shown.
        let after = files(place.directory.path());
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(after == before, "the files have changed");
    }
}

const fn is_foreign(error: &OpenError) -> bool {
    matches!(error, OpenError::Foreign { .. })
}

const WITH_LOG: [&[&str]; 2] = [&["", "-wal"], &["", "-wal", "-shm"]];

#[tokio::test]
async fn another_applications_database_keeps_the_log_that_a_crash_left_beside_it() {
    for sql in [
        // Something is in the file, and more in the log.
        "CREATE TABLE theirs (x); PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 7; PRAGMA wal_checkpoint(TRUNCATE); CREATE TABLE theirs (x)",
        // Everything is in the log.
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 7",
        "CREATE TABLE conversation (x)",
        // A table that this library has too does not make it this library's.
        "CREATE TABLE conversation (x); PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO conversation VALUES (1)",
    ] {
        let theirs = Place::new();
        let connection = theirs.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        for endings in WITH_LOG {
            let place = crashed(&theirs, endings);
            is_left_alone(&place, is_foreign).await;
            let whole = |connection: &Connection| -> String {
                let version = "SELECT group_concat(name) FROM sqlite_schema";
                connection
                    .query_row(version, [], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()))
                    .unwrap()
            };
            assert_eq!(whole(&place.connect()), whole(&connection), "{sql}");
        }
    }
}

#[tokio::test]
async fn another_applications_database_without_a_log_gets_none() {
    for sql in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "CREATE TABLE conversation (x)"] {
        let place = Place::new();
        let connection = place.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
        is_left_alone(&place, is_foreign).await;
    }
}

#[tokio::test]
async fn another_applications_database_in_use_is_not_disturbed() {
    for sql in ["CREATE TABLE theirs (x); PRAGMA wal_checkpoint(TRUNCATE)", "CREATE TABLE theirs (x)"] {
        let place = Place::new();
        let connection = place.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)").unwrap();
        let error = SqliteStore::open(&place.path).await.unwrap_err();
        assert!(is_foreign(&error), "{error:?}");
        connection.execute_batch("COMMIT; INSERT INTO theirs VALUES (2)").unwrap();
        let sum: i64 = connection.query_row("SELECT sum(x) FROM theirs", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 3);
    }
}

#[tokio::test]
async fn another_applications_interrupted_transaction_is_left_to_it() {
    let theirs = Place::new();
    let connection = theirs.connect();
    // A cache this small is written to the file before the transaction is committed.
    connection.execute_batch("PRAGMA cache_size = 2; CREATE TABLE theirs (x); BEGIN").unwrap();
    for _ in 0..200 {
        connection.execute("INSERT INTO theirs VALUES (randomblob(2000))", []).unwrap();
    }
    let place = crashed(&theirs, &["", "-journal"]);
    assert!(fs::metadata(place.path.with_file_name("chat.db-journal")).unwrap().len() > 0);
    is_left_alone(&place, is_foreign).await;
}

#[tokio::test]
async fn a_newer_schema_keeps_the_log_that_a_crash_left_beside_it() {
    for checkpoint in [true, false] {
        let newer = Place::new();
        newer.open().await.close().await.unwrap();
        let connection = newer.connect();
        connection.pragma_update(None, "user_version", 1_000).unwrap();
        if checkpoint {
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 1001").unwrap();
        }
        // With an index that is there already: where the version is in the log only, it is read as any log is.
        let place = crashed(&newer, &["", "-wal", "-shm"]);
        let (wal, file) = (place.path.with_file_name("chat.db-wal"), place.path.clone());
        let before = (fs::read(&wal).unwrap(), fs::read(&file).unwrap());
        let error = SqliteStore::open(&place.path).await.unwrap_err();
        assert!(matches!(error, OpenError::NewerSchema { .. }), "{error:?}");
        assert!((fs::read(&wal).unwrap(), fs::read(&file).unwrap()) == before);
    }
}

#[tokio::test]
async fn a_file_that_is_too_short_to_be_a_database_is_left_alone() {
    for bytes in [&b"x"[..], b"S", b"xy", b"SQLite format 3\0", &[0; 99], &[0; 100], &[b'x'; 600]] {
        let place = Place::new();
        fs::write(&place.path, bytes).unwrap();
        is_left_alone(&place, |error| matches!(error, OpenError::NotADatabase { .. })).await;
    }
    let place = Place::new();
    fs::write(&place.path, "").unwrap();
    say(&place.open().await, &conversation("a"), "an empty file is a new database").await;
}

#[tokio::test]
async fn a_log_that_a_crash_left_beside_this_librarys_database_is_read() {
    let id = conversation("a");
    for checkpoint in [true, false] {
        let place = Place::new();
        let store = place.open().await;
        say(&store, &id, "one").await;
        if checkpoint {
            store.checkpoint().await.unwrap();
            say(&store, &id, "two").await;
        }
        let expected = texts(&window(&store, &id).await);
        for endings in WITH_LOG {
            let copy = crashed(&place, endings);
            let store = copy.open().await;
            assert_eq!(texts(&window(&store, &id).await), expected);
            say(&store, &id, "three").await;
            store.close().await.unwrap();
            // As ever, the log goes with the last connection.
            assert_eq!(files(copy.directory.path()).len(), 1);
        }
    }
}
