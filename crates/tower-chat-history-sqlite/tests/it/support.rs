//! Support for the tests of the store.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    process::{Child, Command, Stdio},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rusqlite::{Connection, types::ValueRef};
use tempfile::TempDir;
pub(crate) use tower_chat_history_conformance::shorthand::{append, conversation, exchange, say, texts, window};
use tower_chat_history_core::{
    Citation, Compact, CompactionVersion, ConversationId, Exchange, HistoryStore, HistoryStoreExt, Load, Profile,
    Recalled, Seq, StoreError,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore};

/// File names that SQLite would take for URIs.
pub(crate) const URI_LIKE_NAMES: [&str; 7] = [
    "file:x.db",
    "file:a%20b.db",
    "file:y.db?nolock=1",
    "file::memory:?cache=shared",
    "file:z.db?mode=memory",
    "file:victim.db?",
    "FILE:u.db#fragment",
];

/// Returns options for stores that wait for each other's locks. A busy machine may stall the holder of a lock for
/// longer than the default timeout.
pub(crate) fn patient() -> SqliteOptions {
    SqliteOptions::new().busy_timeout(Duration::from_secs(120))
}

/// A temporary directory, and the path of a database in it.
pub(crate) struct TestDatabase {
    pub(crate) directory: TempDir,
    pub(crate) path: PathBuf,
}

impl TestDatabase {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chat.db");
        Self { directory, path }
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        patient().open(&self.path).await.unwrap()
    }

    /// Opens a connection of its own, as another process would.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// Returns true if one of the files contains the text. (This drops the store's file locks, which no other process
    /// needs here.)
    pub(crate) fn contains(&self, text: &str) -> bool {
        let files =
            self.directory.path().read_dir().unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
        files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }
}

/// Returns true if a row of a table contains the text. Unlike [`TestDatabase::contains`], this finds no copies in
/// free space or in the write-ahead log.
pub(crate) fn rows_contain(connection: &Connection, text: &str) -> bool {
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let found = |value: ValueRef<'_>| {
        let bytes = value.as_bytes().unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    tables.iter().any(|table| {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut contains = false;
        while let Some(row) = rows.next().unwrap() {
            contains |= (0..columns).any(|column| found(row.get_ref(column).unwrap()));
        }
        contains
    })
}

/// Returns an exchange with recalled messages, which cite these positions.
pub(crate) fn recalling(text: &str, recalled: &str, cited: &[u64]) -> Exchange {
    let mut exchange = exchange(text);
    let citations = cited.iter().map(|seq| Citation::new(Seq::new(*seq), 0..1)).collect();
    exchange.recalled = Some(Recalled::new(recalled, citations));
    exchange
}

/// Returns the first compaction of a profile. The text stands for a summary.
pub(crate) fn compact(profile: &str, window_start: u64, text: Option<&str>) -> Compact {
    let profile = Profile::new(profile).unwrap();
    let derived = text.map(|text| Arc::from(text.as_bytes()));
    Compact::new(profile, CompactionVersion::NONE, Seq::new(window_start), Arc::from(&b"state"[..]), derived)
}

/// A call that is queued: it runs even if it is not polled again.
pub(crate) type Queued<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Polls a call once, so that it is in the store's queue.
pub(crate) fn enqueue<'a, T: Send + 'a>(
    call: impl Future<Output = Result<T, StoreError>> + Send + 'a,
) -> Queued<'a, T> {
    let mut call: Queued<'a, T> = Box::pin(call);
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => call,
        Poll::Ready(result) => Box::pin(std::future::ready(result)),
    }
}

/// Checks that a call failed with an error of the backend, whose text contains this.
#[track_caller]
pub(crate) fn assert_backend<T: std::fmt::Debug>(result: Result<T, StoreError>, text: &str) {
    let error = result.unwrap_err();
    assert!(matches!(&error, StoreError::Backend { source } if source.to_string().contains(text)), "{error:?}");
}

/// Creates two conversations of three exchanges, and damages the first one with `sql`.
pub(crate) async fn damaged(sql: &str) -> (TestDatabase, SqliteStore, ConversationId) {
    let database = TestDatabase::new();
    let store = database.open().await;
    for name in ["damaged", "whole"] {
        for text in ["one", "two", "three"] {
            say(&store, &conversation(name), text).await;
        }
    }
    database.connect().execute_batch(sql).unwrap();
    (database, store, conversation("damaged"))
}

/// Checks that loads and reads fail with an error that names the position and quotes no text.
pub(crate) async fn assert_corrupt_at(
    store: &SqliteStore,
    id: &ConversationId,
    position: u64,
) -> Box<dyn std::error::Error> {
    let read = store.conversation(id).messages().await.unwrap_err();
    let load = store.load(id, Load::new()).await.unwrap_err();
    for error in [&read, &load] {
        let named = matches!(error, StoreError::Corrupt { conversation, seq, .. }
            if conversation == id && *seq == Seq::new(position));
        assert!(named, "{error:?}");
        assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
    }
    assert_eq!(texts(&window(store, &conversation("whole")).await), ["one", "two", "three"]);
    load.into()
}

/// Returns a command that runs one test of this binary in a child process. `program` is the path of this binary, and
/// `test` the full name of the test.
pub(crate) fn child_test(program: impl AsRef<std::ffi::OsStr>, test: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).stdout(Stdio::piped());
    command
}

/// Waits for a child process, and checks that it ran exactly one test, which passed.
pub(crate) fn assert_one_test_passed(child: Child) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("test result: ok. 1 passed;"), "{}: {text}", output.status);
}
