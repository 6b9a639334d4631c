//! Which file a path names, and what is said of one that cannot be used.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    env,
    error::Error,
    fs::{self, File},
    path::Path,
    process::Command,
};

use support::{Place, append, conversation, say, texts, window};
use tower_chat_history_core::{HistoryStore, Load, StoreError};
use tower_chat_history_sqlite::{OpenError, Replaced, SqliteStore};

/// Names that SQLite would take for URIs if they were handed to it as they are.
const NO_URIS: [&str; 7] = [
    "file:x.db",
    "file:a%20b.db",
    "file:y.db?nolock=1",
    "file::memory:?cache=shared",
    "file:z.db?mode=memory",
    "file:victim.db?",
    "FILE:u.db#fragment",
];

/// Set for the process that works in a directory of its own: its relative paths are those of files there.
const AT_HOME: &str = "CHAT_HISTORY_AT_HOME";

/// Runs one test of this file again, in another process and directory, and as another user if it is to have no rights.
fn again(test: &str, directory: &Path, powerless: bool) {
    let mut child = Command::new("/proc/self/exe");
    child.args(["--exact", test, "--nocapture"]).env(AT_HOME, "1").current_dir(directory);
    #[cfg(unix)]
    if powerless && is_root() {
        use std::os::unix::process::CommandExt;
        child.uid(65_534).gid(65_534);
    }
    assert!(child.status().unwrap().success());
}

#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_relative_path_is_that_of_a_file_and_no_uri() {
    let id = conversation("a");
    if env::var(AT_HOME).is_ok() {
        for name in NO_URIS {
            let store = SqliteStore::open(name).await.unwrap();
            say(&store, &id, name).await;
            assert_eq!(texts(&window(&store, &id).await), [name]);
            assert!(Path::new(name).is_file(), "{name}");
            assert_eq!(store.path(), Path::new(name));
            store.close().await.unwrap();
        }
        return;
    }
    let place = Place::new();
    let victim = SqliteStore::open(place.directory.path().join("victim.db")).await.unwrap();
    say(&victim, &id, "secret").await;
    victim.close().await.unwrap();
    again("a_relative_path_is_that_of_a_file_and_no_uri", place.directory.path(), false);
    let mut expected = NO_URIS.map(str::to_owned).to_vec();
    expected.push("victim.db".into());
    expected.sort();
    assert_eq!(names(place.directory.path()), expected, "nothing else was opened or made");
}

#[tokio::test]
async fn an_absolute_path_is_that_of_a_file_and_no_uri() {
    let place = Place::new();
    for name in NO_URIS {
        let path = place.directory.path().join(name);
        say(&SqliteStore::open(&path).await.unwrap(), &conversation("a"), "x").await;
        assert!(path.is_file());
    }
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let place = Place::new();
    fs::write(place.directory.path().join("text"), "no directory").unwrap();
    for (path, directory) in [("missing/chat.db", "missing"), ("no/such/chat.db", "no/such"), ("text/chat.db", "text")]
    {
        let error = SqliteStore::open(place.directory.path().join(path)).await.unwrap_err();
        let missing = place.directory.path().join(directory);
        assert!(matches!(&error, OpenError::NoDirectory { directory } if *directory == missing), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(missing.to_str().unwrap()) && text.contains("must exist"), "{text}");
    }
}

#[tokio::test]
async fn a_path_that_is_a_directory_is_named() {
    let place = Place::new();
    let error = SqliteStore::open(place.directory.path()).await.unwrap_err();
    assert!(matches!(&error, OpenError::Directory { path } if path == place.directory.path()), "{error:?}");
    assert!(error.to_string().contains(place.directory.path().to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn each_refusal_of_a_file_names_its_path() {
    let place = Place::new();
    let path = place.path.to_str().unwrap().to_owned();
    fs::write(&place.path, "this is a text and no database, and long enough to be told apart from one".repeat(9))
        .unwrap();
    let text = SqliteStore::open(&place.path).await.unwrap_err().to_string();
    assert!(text.contains(&path), "{text}");
    fs::remove_file(&place.path).unwrap();
    for sql in ["CREATE TABLE theirs (x)", "PRAGMA application_id = 1950574664; PRAGMA user_version = 99"] {
        place.connect().execute_batch(sql).unwrap();
        let text = SqliteStore::open(&place.path).await.unwrap_err().to_string();
        assert!(text.contains(&path), "{text}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_may_not_be_written_or_read_is_refused_when_it_is_opened() {
    use std::os::unix::fs::PermissionsExt;
    let id = conversation("a");
    if env::var(AT_HOME).is_ok() {
        for name in ["read-only.db", "read-only-journal.db"] {
            let error = SqliteStore::open(name).await.unwrap_err();
            let here = env::current_dir().unwrap().join(name);
            assert!(matches!(&error, OpenError::ReadOnly { path } if *path == here), "{error:?}");
            assert!(error.to_string().contains(here.to_str().unwrap()), "{error}");
        }
        for name in ["unreadable.db", "closed/chat.db", "sealed/new.db"] {
            let error = SqliteStore::open(name).await.unwrap_err();
            let here = env::current_dir().unwrap().join(name);
            assert!(matches!(&error, OpenError::CannotOpen { path, .. } if *path == here), "{name}: {error:?}");
            assert!(error.to_string().contains(here.to_str().unwrap()), "{error}");
        }
        let error = SqliteStore::open("no-log.db").await.unwrap_err();
        assert!(matches!(&error, OpenError::ReadOnly { .. } | OpenError::CannotOpen { .. }), "{error:?}");
        return;
    }
    let place = Place::new();
    let directory = place.directory.path();
    let allow = |name: &str, mode| fs::set_permissions(directory.join(name), fs::Permissions::from_mode(mode)).unwrap();
    for (name, mode) in [("closed", 0o000), ("sealed", 0o555)] {
        fs::create_dir(directory.join(name)).unwrap();
        allow(name, mode);
    }
    for name in ["read-only.db", "unreadable.db", "no-log.db"] {
        let store = SqliteStore::open(directory.join(name)).await.unwrap();
        say(&store, &id, "x").await;
        store.close().await.unwrap();
    }
    // An empty file is a database without a write-ahead log.
    File::create(directory.join("read-only-journal.db")).unwrap();
    // The file may be written, and the files beside it belong to somebody else.
    let keeper = SqliteStore::open(directory.join("no-log.db")).await.unwrap();
    say(&keeper, &id, "y").await;
    allow("no-log.db", 0o666);
    allow("no-log.db-wal", 0o444);
    allow("no-log.db-shm", 0o444);
    allow("read-only.db", 0o444);
    allow("read-only-journal.db", 0o444);
    allow("unreadable.db", 0o000);
    allow(".", 0o777);
    again("a_file_that_may_not_be_written_or_read_is_refused_when_it_is_opened", directory, true);
    allow("closed", 0o755);
    assert_eq!(texts(&window(&keeper, &id).await), ["x", "y"]);
}

fn is_replaced(error: &StoreError, place: &Place) -> bool {
    let StoreError::Backend { source } = error else { return false };
    source.downcast_ref::<Replaced>().is_some_and(|replaced| replaced.path == place.path)
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_acknowledged_once_the_file_was_deleted_or_replaced() {
    for backup in [false, true] {
        let place = Place::new();
        let id = conversation("a");
        let store = place.open().await;
        say(&store, &id, "x").await;
        store.checkpoint().await.unwrap();
        if backup {
            let copy = place.directory.path().join("backup.db");
            place.connect().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
            fs::rename(copy, &place.path).unwrap();
        } else {
            fs::remove_file(&place.path).unwrap();
        }
        let refused = [
            store.append(&id, append("lost")).await.unwrap_err(),
            store.load(&id, Load::new()).await.unwrap_err(),
            store.delete(&id).await.unwrap_err(),
            store.checkpoint().await.unwrap_err(),
        ];
        for error in &refused {
            assert!(is_replaced(error, &place), "{error:?}");
        }
        let why = refused[0].source().unwrap().to_string();
        assert!(why.contains(place.path.to_str().unwrap()), "{why}");
        drop(store.close().await);
        let store = place.open().await;
        if backup {
            assert_eq!(texts(&window(&store, &id).await), ["x"]);
        }
        say(&store, &id, "y").await;
    }
}
