//! Paths in a process with another current directory, or with fewer permissions.
#![cfg(target_os = "linux")]

use std::{
    env,
    fs::{self, File},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
};

use crate::support::{
    TestDatabase, URI_LIKE_NAMES, assert_one_test_passed, child_test, conversation, say, texts, window,
};
use tower_chat_history_sqlite::{OpenError, SqliteStore};

/// The environment variable that is set for the process with another current directory.
const IN_CHILD: &str = "CHAT_HISTORY_IN_CHILD";

/// Runs one test of this file in another process and directory, as another user if `unprivileged` is set.
fn run_in_child(test: &str, directory: &Path, unprivileged: bool) {
    let mut child = child_test("/proc/self/exe", &format!("paths_in_child::{test}"));
    child.env(IN_CHILD, "1").current_dir(directory);
    if unprivileged && is_root() {
        child.uid(65_534).gid(65_534);
    }
    assert_one_test_passed(child.spawn().unwrap());
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
async fn a_relative_path_is_never_a_uri() {
    let id = conversation("a");
    if env::var(IN_CHILD).is_ok() {
        for name in URI_LIKE_NAMES {
            let store = SqliteStore::open(name).await.unwrap();
            say(&store, &id, name).await;
            assert_eq!(texts(&window(&store, &id).await), [name]);
            assert!(Path::new(name).is_file(), "{name}");
            assert_eq!(store.path(), Path::new(name));
            store.close().await.unwrap();
        }
        return;
    }
    let database = TestDatabase::new();
    let victim = SqliteStore::open(database.directory.path().join("victim.db")).await.unwrap();
    say(&victim, &id, "secret").await;
    victim.close().await.unwrap();
    run_in_child("a_relative_path_is_never_a_uri", database.directory.path(), false);
    let mut expected = URI_LIKE_NAMES.map(str::to_owned).to_vec();
    expected.push("victim.db".into());
    expected.sort();
    assert_eq!(names(database.directory.path()), expected, "no other file was opened or created");
}

#[tokio::test]
async fn a_file_without_permissions_is_refused_when_it_is_opened() {
    let id = conversation("a");
    if env::var(IN_CHILD).is_ok() {
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
    let database = TestDatabase::new();
    let directory = database.directory.path();
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
    // The file can be written, but the files next to it cannot.
    let keeper = SqliteStore::open(directory.join("no-log.db")).await.unwrap();
    say(&keeper, &id, "y").await;
    allow("no-log.db", 0o666);
    allow("no-log.db-wal", 0o444);
    allow("no-log.db-shm", 0o444);
    allow("read-only.db", 0o444);
    allow("read-only-journal.db", 0o444);
    allow("unreadable.db", 0o000);
    allow(".", 0o777);
    run_in_child("a_file_without_permissions_is_refused_when_it_is_opened", directory, true);
    allow("closed", 0o755);
    assert_eq!(texts(&window(&keeper, &id).await), ["x", "y"]);
}
