//! A refused file is left unchanged, byte for byte, and so are the files next to it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::support::{TestDatabase, conversation, say, texts, window};
use rusqlite::Connection;
use tower_chat_history_sqlite::{OpenError, SqliteStore};

/// Returns the content of all files of a directory.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Copies a database that is in use with some of the files next to it, as a crash would leave them.
fn crashed(from: &TestDatabase, endings: &[&str]) -> TestDatabase {
    let to = TestDatabase::new();
    for ending in endings {
        let sibling = |database: &TestDatabase| database.path.with_file_name(format!("chat.db{ending}"));
        fs::copy(sibling(from), sibling(&to)).unwrap();
    }
    to
}

/// Checks that the database is refused with the expected error, and that nothing has changed in its directory.
async fn assert_refused_unchanged(database: &TestDatabase, expected: fn(&OpenError) -> bool) {
    let before = files(database.directory.path());
    for _ in 0..2 {
        let error = SqliteStore::open(&database.path).await.unwrap_err();
        assert!(expected(&error), "{error:?}");
        // The bytes are compared but not printed.
        let after = files(database.directory.path());
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(after == before, "the files have changed");
    }
}

const fn is_foreign(error: &OpenError) -> bool {
    matches!(error, OpenError::Foreign { .. })
}

const WITH_LOG: [&[&str]; 2] = [&["", "-wal"], &["", "-wal", "-shm"]];

#[tokio::test]
async fn a_foreign_database_keeps_the_log_that_a_crash_left() {
    for sql in [
        // The file has content, and the log has more.
        "CREATE TABLE theirs (x); PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 7; PRAGMA wal_checkpoint(TRUNCATE); CREATE TABLE theirs (x)",
        // Everything is in the log.
        "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 7",
        "CREATE TABLE conversation (x)",
        // A table with the name of one of this library's tables is not enough.
        "CREATE TABLE conversation (x); PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO conversation VALUES (1)",
    ] {
        let theirs = TestDatabase::new();
        let connection = theirs.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        for endings in WITH_LOG {
            let database = crashed(&theirs, endings);
            assert_refused_unchanged(&database, is_foreign).await;
            let whole = |connection: &Connection| -> String {
                let version = "SELECT group_concat(name) FROM sqlite_schema";
                connection
                    .query_row(version, [], |row| Ok(row.get::<_, Option<String>>(0)?.unwrap_or_default()))
                    .unwrap()
            };
            assert_eq!(whole(&database.connect()), whole(&connection), "{sql}");
        }
    }
}

#[tokio::test]
async fn a_foreign_database_without_a_log_gets_none() {
    for sql in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7", "CREATE TABLE conversation (x)"] {
        let database = TestDatabase::new();
        let connection = database.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
        assert_refused_unchanged(&database, is_foreign).await;
    }
}

#[tokio::test]
async fn a_foreign_database_in_use_is_not_disturbed() {
    for sql in ["CREATE TABLE theirs (x); PRAGMA wal_checkpoint(TRUNCATE)", "CREATE TABLE theirs (x)"] {
        let database = TestDatabase::new();
        let connection = database.connect();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(sql).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)").unwrap();
        let error = SqliteStore::open(&database.path).await.unwrap_err();
        assert!(is_foreign(&error), "{error:?}");
        connection.execute_batch("COMMIT; INSERT INTO theirs VALUES (2)").unwrap();
        let sum: i64 = connection.query_row("SELECT sum(x) FROM theirs", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 3);
    }
}

#[tokio::test]
async fn an_interrupted_transaction_of_a_foreign_database_is_kept() {
    let theirs = TestDatabase::new();
    let connection = theirs.connect();
    // A cache this small is written to the file before the transaction is committed.
    connection.execute_batch("PRAGMA cache_size = 2; CREATE TABLE theirs (x); BEGIN").unwrap();
    for _ in 0..200 {
        connection.execute("INSERT INTO theirs VALUES (randomblob(2000))", []).unwrap();
    }
    let database = crashed(&theirs, &["", "-journal"]);
    assert!(fs::metadata(database.path.with_file_name("chat.db-journal")).unwrap().len() > 0);
    assert_refused_unchanged(&database, is_foreign).await;
}

#[tokio::test]
async fn a_database_of_a_newer_schema_keeps_the_log_that_a_crash_left() {
    for checkpoint in [true, false] {
        let newer = TestDatabase::new();
        newer.open().await.close().await.unwrap();
        let connection = newer.connect();
        connection.pragma_update(None, "user_version", 1_000).unwrap();
        if checkpoint {
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 1001").unwrap();
        }
        // The index is copied too: if only the log has the version, the log is read the usual way, which needs an
        // index.
        let database = crashed(&newer, &["", "-wal", "-shm"]);
        let (wal, file) = (database.path.with_file_name("chat.db-wal"), database.path.clone());
        let before = (fs::read(&wal).unwrap(), fs::read(&file).unwrap());
        let error = SqliteStore::open(&database.path).await.unwrap_err();
        assert!(matches!(error, OpenError::NewerSchema { .. }), "{error:?}");
        assert!((fs::read(&wal).unwrap(), fs::read(&file).unwrap()) == before);
    }
}

#[tokio::test]
async fn a_file_that_is_too_short_to_be_a_database_assert_refused_unchanged() {
    for bytes in [&b"x"[..], b"S", b"xy", b"SQLite format 3\0", &[0; 99], &[0; 100], &[b'x'; 600]] {
        let database = TestDatabase::new();
        fs::write(&database.path, bytes).unwrap();
        assert_refused_unchanged(&database, |error| matches!(error, OpenError::NotADatabase { .. })).await;
    }
    let database = TestDatabase::new();
    fs::write(&database.path, "").unwrap();
    say(&database.open().await, &conversation("a"), "an empty file is a new database").await;
}

#[tokio::test]
async fn the_log_that_a_crash_left_next_to_an_own_database_is_read() {
    let id = conversation("a");
    for checkpoint in [true, false] {
        let database = TestDatabase::new();
        let store = database.open().await;
        say(&store, &id, "one").await;
        if checkpoint {
            store.checkpoint().await.unwrap();
            say(&store, &id, "two").await;
        }
        let expected = texts(&window(&store, &id).await);
        for endings in WITH_LOG {
            let copy = crashed(&database, endings);
            let store = copy.open().await;
            assert_eq!(texts(&window(&store, &id).await), expected);
            say(&store, &id, "three").await;
            store.close().await.unwrap();
            // The last connection has removed the log.
            assert_eq!(files(copy.directory.path()).len(), 1);
        }
    }
}
