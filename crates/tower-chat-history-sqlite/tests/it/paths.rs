//! The file that a path names, and the errors of paths that cannot be used.

use std::{error::Error, fs};

use tower_chat_history_core::{HistoryStore, Load, StoreError};
use tower_chat_history_sqlite::{OpenError, SqliteError, SqliteStore};

use crate::support::{TestDatabase, URI_LIKE_NAMES, append, conversation, patient, say, texts, window};

#[tokio::test]
async fn an_absolute_path_is_never_a_uri() {
    let database = TestDatabase::new();
    for name in URI_LIKE_NAMES {
        let path = database.directory.path().join(name);
        say(&SqliteStore::open(&path).await.unwrap(), &conversation("a"), "x").await;
        assert!(path.is_file());
    }
}

#[tokio::test]
async fn the_error_of_a_missing_directory_names_it() {
    let database = TestDatabase::new();
    fs::write(database.directory.path().join("text"), "no directory").unwrap();
    for (path, directory) in [("missing/chat.db", "missing"), ("no/such/chat.db", "no/such"), ("text/chat.db", "text")]
    {
        let error = SqliteStore::open(database.directory.path().join(path)).await.unwrap_err();
        let missing = database.directory.path().join(directory);
        assert!(matches!(&error, OpenError::NoDirectory { directory } if *directory == missing), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(missing.to_str().unwrap()) && text.contains("must exist"), "{text}");
    }
}

#[tokio::test]
async fn the_error_of_a_path_that_is_a_directory_names_it() {
    let database = TestDatabase::new();
    let error = SqliteStore::open(database.directory.path()).await.unwrap_err();
    assert!(matches!(&error, OpenError::Directory { path } if path == database.directory.path()), "{error:?}");
    assert!(error.to_string().contains(database.directory.path().to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn the_error_of_a_refused_file_begins_with_its_path() {
    let database = TestDatabase::new();
    let path = database.path.to_str().unwrap().to_owned();
    fs::write(&database.path, "this is a text, not a database, and longer than the header of one".repeat(9)).unwrap();
    let text = SqliteStore::open(&database.path).await.unwrap_err().to_string();
    assert!(text.starts_with(&format!("{path}: ")), "{text}");
    fs::remove_file(&database.path).unwrap();
    for sql in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 1950574664; PRAGMA user_version = 99"] {
        database.connect().execute_batch(sql).unwrap();
        let text = SqliteStore::open(&database.path).await.unwrap_err().to_string();
        assert!(text.starts_with(&format!("{path}: ")), "{text}");
    }
}

fn is_replaced(error: &StoreError, database: &TestDatabase) -> bool {
    let StoreError::Backend { source } = error else { return false };
    source.downcast_ref() == Some(&SqliteError::Replaced { path: database.path.clone() })
}

#[cfg(unix)]
#[tokio::test]
async fn all_calls_fail_after_the_file_was_deleted_or_replaced() {
    for backup in [false, true] {
        let database = TestDatabase::new();
        let id = conversation("a");
        let store = database.open().await;
        say(&store, &id, "x").await;
        store.checkpoint().await.unwrap();
        if backup {
            let copy = database.directory.path().join("backup.db");
            database.connect().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
            fs::rename(copy, &database.path).unwrap();
        } else {
            fs::remove_file(&database.path).unwrap();
        }
        let refused = [
            store.append(&id, append("lost")).await.unwrap_err(),
            store.load(&id, Load::new()).await.unwrap_err(),
            store.delete(&id).await.unwrap_err(),
            store.checkpoint().await.unwrap_err(),
        ];
        for error in &refused {
            assert!(is_replaced(error, &database), "{error:?}");
        }
        let why = refused[0].source().unwrap().to_string();
        assert!(why.contains(database.path.to_str().unwrap()), "{why}");
        drop(store.close().await);
        let store = database.open().await;
        if backup {
            assert_eq!(texts(&window(&store, &id).await), ["x"]);
        }
        say(&store, &id, "y").await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_a_reserved_name_is_refused() {
    use std::os::unix::fs::symlink;

    let database = TestDatabase::new();
    let id = conversation("a");
    let at = |name: &str| database.directory.path().join(name);
    // The store stays open, so that its log exists.
    let store = database.open().await;
    say(&store, &id, "x").await;
    fs::create_dir(at("dir")).unwrap();
    for (number, name) in ["chat.db-wal", "new-shm", "dir/T-JOURNAL"].iter().enumerate() {
        let (link, further) = (at(&format!("{number}.db")), at(&format!("{number}-further.db")));
        symlink(name, &link).unwrap();
        symlink(&link, &further).unwrap();
        let was_there = at(name).exists();
        for path in [link, further] {
            let error = SqliteStore::open(&path).await.unwrap_err();
            assert!(matches!(&error, OpenError::ReservedName { path } if *path == at(name)), "{error:?}");
        }
        assert_eq!(at(name).exists(), was_there, "{name}");
    }
    // A link to another name is followed, even if its target does not exist yet.
    for (name, target) in [("chat-link-wal.db", "chat.db"), ("new-link.db", "new.db")] {
        symlink(at(target), at(name)).unwrap();
        say(&patient().open(at(name)).await.unwrap(), &id, "y").await;
        assert_eq!(texts(&window(&patient().open(at(target)).await.unwrap(), &id).await).last().unwrap(), "y");
    }
    // A link to itself leads to no file.
    symlink("loop.db", at("loop.db")).unwrap();
    assert!(matches!(SqliteStore::open(at("loop.db")).await, Err(OpenError::CannotOpen { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_that_is_too_long_has_its_own_error() {
    let database = TestDatabase::new();
    let directory = fs::canonicalize(database.directory.path()).unwrap();
    // With `-journal` appended, a name of 247 bytes has 255 bytes.
    for (len, fits) in [(247, true), (248, false), (255, false), (256, false), (5_000, false)] {
        let path = directory.join("n".repeat(len));
        let opened = SqliteStore::open(&path).await;
        assert_eq!(is_too_long(&opened, &path), !fits, "{len}: {opened:?}");
        assert_eq!((opened.is_ok(), path.exists()), (fits, fits), "{len}");
    }
    // A path of 504 bytes has 512 bytes.
    let mut deep = directory;
    while deep.as_os_str().len() < 300 {
        deep.push("d".repeat(100));
    }
    fs::create_dir_all(&deep).unwrap();
    for (len, fits) in [(504, true), (505, false), (506, false)] {
        let path = deep.join("n".repeat(len - 1 - deep.as_os_str().len()));
        let opened = SqliteStore::open(&path).await;
        assert_eq!(is_too_long(&opened, &path), !fits, "{len}: {opened:?}");
        assert_eq!((opened.is_ok(), path.exists()), (fits, fits), "{len}");
    }
}

#[cfg(unix)]
fn is_too_long(opened: &Result<SqliteStore, OpenError>, expected: &std::path::Path) -> bool {
    let Err(error) = opened else { return false };
    let text = error.to_string();
    matches!(error, OpenError::TooLong { path } if path == expected)
        && text.contains("too long")
        && !text.contains("able to")
}
