//! Paths as a process sees them that has a current directory of its own, or fewer rights.
#![cfg(target_os = "linux")]

use std::{
    env,
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use tower_chat_history_sqlite::{OpenError, SqliteStore};

use crate::support::{NO_URIS, Place, conversation, say, texts, window};

/// Set for the process that works in a directory of its own: its relative paths are those of files there.
const AT_HOME: &str = "CHAT_HISTORY_AT_HOME";

/// Runs one test of this file again, in another process and directory, and as another user if it is to have no rights.
fn again(test: &str, directory: &Path, powerless: bool) {
    let mut child = Command::new("/proc/self/exe");
    child
        .args(["--exact", &format!("paths_of_a_process::{test}"), "--nocapture"])
        .env(AT_HOME, "1")
        .current_dir(directory);
    if powerless && is_root() {
        child.uid(65_534).gid(65_534);
    }
    assert!(child.status().unwrap().success());
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

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
async fn a_file_that_may_not_be_written_or_read_is_refused_when_it_is_opened() {
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
