//! Opening and closing stores.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use tower_chat_history_core::{
    Append, Citation, ConversationId, Cut, Cuts, Digest, Epoch, Expect, HistoryStore, HistoryStoreExt, Labels,
    LabelsVersion, List, Load, LoadLimit, Loaded, Message, Origin, Recalled, Seq, StoreError,
};
use tower_chat_history_sqlite::{OpenError, SqliteError, SqliteOptions, SqliteStore, Synchronous};

use crate::support::{TestDatabase, append, compact, conversation, exchange, patient, say, texts, window};

#[tokio::test]
async fn acknowledged_writes_are_found_after_reopening() {
    let database = TestDatabase::new();
    let id = conversation("a");
    let odd = "{ \"role\":\"user\", \"x\": 1.0, \"content\":\"\\u0000 ü\" }";
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let store = SqliteOptions::new().synchronous(synchronous).readers(1).open(&database.path).await.unwrap();
        store.delete(&id).await.unwrap();
        let mut first = exchange("one");
        first.messages.push(Message::from_json(odd).unwrap());
        let first = store.append(&id, Append::new(Expect::Absent, first)).await.unwrap();
        let compact = compact("default", 1, Some("they said hello"));
        let second = Append::new(Expect::Exactly(first.revision), exchange("two")).compact(compact);
        store.append(&id, second).await.unwrap();
        let before = window(&store, &id).await;
        store.close().await.unwrap();

        let store = database.open().await;
        assert_eq!(window(&store, &id).await, before);
        assert_eq!(store.conversation(&id).messages().await.unwrap()[2].json(), odd);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_file_can_be_reopened_after_its_store_was_dropped() {
    let database = TestDatabase::new();
    let id = conversation("a");
    for turn in 0..5 {
        let store = database.open().await;
        let appended = say(&store, &id, "x").await;
        assert_eq!(appended.seq, Seq::new(turn));
    }
}

#[tokio::test]
async fn closing_ends_all_handles_and_empties_the_log() {
    let database = TestDatabase::new();
    let id = conversation("a");
    let store = database.open().await;
    say(&store, &id, "x").await;
    let other = store.clone();
    let (first, second) = tokio::join!(store.clone().close(), store.close());
    first.unwrap();
    second.unwrap();
    assert!(!database.path.with_extension("db-wal").exists(), "the last connection removes the log");
    let refused = [
        other.load(&id, Load::new()).await.unwrap_err(),
        other.append(&id, append("y")).await.unwrap_err(),
        other.checkpoint().await.unwrap_err(),
    ];
    for error in refused {
        assert!(
            matches!(&error, StoreError::Backend { source } if source.downcast_ref() == Some(&SqliteError::Closed)),
            "{error:?}"
        );
    }
    other.close().await.unwrap();
}

#[tokio::test]
async fn calls_in_progress_finish_before_the_store_closes() {
    let database = TestDatabase::new();
    let id = conversation("a");
    let store = database.open().await;
    let calls: Vec<_> =
        (0..20).map(|_| crate::support::enqueue(store.append(&id, crate::support::append("x")))).collect();
    store.clone().close().await.unwrap();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(window(&database.open().await, &id).await.exchanges.len(), 20);
}

#[tokio::test]
async fn the_file_is_closed_after_the_last_read() {
    let database = TestDatabase::new();
    let id = conversation("a");
    let store = database.open().await;
    for _ in 0..5 {
        say(&store, &id, &"x".repeat(4_000_000)).await;
    }
    let everything = Load::new().limit(LoadLimit::new(usize::MAX, usize::MAX).unwrap());
    let load = crate::support::enqueue(store.load(&id, everything));
    store.clone().close().await.unwrap();
    assert!(!database.path.with_extension("db-wal").exists());
    assert!(matches!(load.await.unwrap(), Loaded::Window(window) if window.exchanges.len() == 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_stores_can_create_the_same_file_at_once() {
    for _ in 0..20 {
        let database = TestDatabase::new();
        let barrier = Arc::new(Barrier::new(12));
        let threads: Vec<_> = (0..12)
            .map(|_| {
                let (path, barrier) = (database.path.clone(), Arc::clone(&barrier));
                thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    barrier.wait();
                    runtime.block_on(patient().open(path)).map(drop)
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn paths_and_files_that_are_not_databases_are_refused() {
    for path in ["", ":memory:"] {
        let error = SqliteStore::open(path).await.unwrap_err();
        assert!(matches!(error, OpenError::NotAFile) && error.to_string().contains("MemoryStore"), "{error}");
    }
    let database = TestDatabase::new();
    std::fs::write(&database.path, "this is a text, not a database, and longer than the header of one".repeat(9))
        .unwrap();
    assert!(matches!(SqliteStore::open(&database.path).await, Err(OpenError::NotADatabase { .. })));
}

#[tokio::test]
async fn foreign_databases_are_refused_unchanged() {
    let database = TestDatabase::new();
    database.connect().execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    let before = std::fs::read(&database.path).unwrap();
    let error = SqliteStore::open(&database.path).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { application_id: 0, .. }), "{error}");
    assert_eq!(std::fs::read(&database.path).unwrap(), before);
}

#[tokio::test]
async fn newer_schemas_are_refused() {
    let database = TestDatabase::new();
    database.open().await.close().await.unwrap();
    database.connect().pragma_update(None, "user_version", 1_000).unwrap();
    let error = SqliteStore::open(&database.path).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 1_000, .. }), "{error}");
}

#[tokio::test]
async fn a_database_of_version_1_is_read_and_continued() {
    let database = TestDatabase::new();
    database.connect().execute_batch(include_str!("frozen/version-1.sql")).unwrap();
    let store = database.open().await;
    let id = "acme/user%2042".parse().unwrap();
    let log = store.conversation(&id).exchanges().await.unwrap();
    let ids: Vec<_> = log.iter().map(|recorded| recorded.exchange.id.as_str()).collect();
    assert_eq!(ids, ["e0", "e1", "e2"]);
    assert_eq!(log[1].exchange.continues, Some(Seq::new(0)));
    let citations = vec![Citation::new(Seq::new(0), 0..1), Citation::new(Seq::new(1), 1..2)];
    let mut recalled = Recalled::new("You said: \u{0} Nemo.", citations);
    recalled.tokens = Some(9);
    assert_eq!(log[2].exchange.recalled, Some(recalled));
    let provenance = log[1].exchange.provenance.clone().unwrap();
    assert_eq!((provenance.renderer, provenance.digests.head), (1, Digest::of(b"")));
    assert_eq!(provenance.digests.prompt.to_string(), "0011223344556677");
    assert_eq!(provenance.reader.unwrap().to_string(), "8899aabbccddeeff");
    assert_eq!((provenance.made_at, provenance.tokens), (Some(Seq::new(1)), Some(34)));
    let mut cut = Cut::window_from(Seq::new(2));
    (cut.reasoning_from, cut.encrypted_from) = (Seq::new(5), Seq::new(3));
    assert_eq!((provenance.cut, provenance.origin), (cut.positions, Origin::unknown().provider("p\u{0}")));
    let loaded = window(&store, &id).await;
    assert_eq!(loaded.revision.to_string(), "00112233445566778899aabbccddeeff.3");
    let Cuts { cut, replaced, .. } = Cuts::read(&loaded.compaction.unwrap()).unwrap();
    assert_eq!((cut.summary.unwrap().text.as_str(), replaced), ("They greeted each other.", None));
    assert_eq!(loaded.exchanges, log[2..]);
    let entry = store.describe(&id).await.unwrap().unwrap();
    let times = (entry.created_at.as_unix_millis(), entry.updated_at.as_unix_millis());
    assert_eq!((entry.revision, times), (loaded.revision, (1_700_000_000_000, 1_700_000_002_000)));
    let labels = Labels::new([("pinned", ""), ("title", "Nemo \u{0}")]).unwrap();
    assert_eq!((entry.bytes, entry.labels, entry.labels_version), (346, labels, LabelsVersion::new(2)));
    assert_eq!(say(&store, &id, "and on").await.seq, Seq::new(3));

    let id = "acme/pruned".parse().unwrap();
    let log = store.conversation(&id).exchanges().await.unwrap();
    let ids: Vec<_> = log.iter().map(|recorded| (recorded.seq.get(), recorded.exchange.id.as_str())).collect();
    assert_eq!(ids, [(2, "e2"), (3, "e3")]);
    let loaded = window(&store, &id).await;
    assert_eq!(loaded.revision.to_string(), "ffeeddccbbaa99887766554433221100.4.2");
    let Cuts { cut, replaced, .. } = Cuts::read(&loaded.compaction.unwrap()).unwrap();
    assert_eq!((cut.recalled_from, cut.reasoning_from), (Seq::new(3), Seq::new(4)));
    assert_eq!(cut.encrypted_from, Seq::new(2));
    assert_eq!(cut.summary.unwrap().text, "They greeted each other.");
    let replaced = replaced.unwrap();
    assert_eq!((replaced.window_start, replaced.rounds_start), (Seq::new(0), Seq::new(1)));
    assert_eq!((loaded.exchanges, loaded.truncated), (log, false));
    let entry = store.describe(&id).await.unwrap().unwrap();
    assert_eq!((entry.revision.len(), entry.bytes), (2, 127));
    assert_eq!((entry.labels, entry.labels_version), (Labels::default(), LabelsVersion::NONE));
    assert_eq!(say(&store, &id, "and on").await.seq, Seq::new(4));
    let absent: ConversationId = "acme/user%2042/new".parse().unwrap();
    assert_eq!(store.load(&absent, Load::new()).await.unwrap(), Loaded::Absent(Epoch::new(7)));
    let first = |since| Append::new(Expect::AnyOrCreate, exchange("x")).since(Some(Epoch::new(since)));
    assert!(matches!(store.append(&absent, first(6)).await, Err(StoreError::Gone)), "epoch 7 is of its prefix");
    let other = conversation("other");
    assert!(matches!(store.append(&other, first(5)).await, Err(StoreError::Gone)), "epoch 6 is of all");
    store.append(&other, first(6)).await.unwrap();
    store.close().await.unwrap();

    let fresh = TestDatabase::new();
    fresh.open().await.close().await.unwrap();
    let columns = |database: &TestDatabase| -> Vec<String> {
        let connection = database.connect();
        let sql = "SELECT m.name || ' ' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || c.pk
                   FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' ORDER BY 1";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert_eq!(columns(&database), columns(&fresh), "a file of version 1 has the columns of a new file");
    let indexes = |database: &TestDatabase| -> Vec<String> {
        let connection = database.connect();
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert_eq!(indexes(&database), indexes(&fresh), "a file of version 1 has the indexes of a new file");
}

#[tokio::test]
async fn a_checkpoint_empties_the_log_and_keeps_the_file_complete() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    for _ in 0..50 {
        say(&store, &id, &"x".repeat(2_000)).await;
    }
    let log = database.path.with_extension("db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 100_000);
    store.checkpoint().await.unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    let copy = TestDatabase::new();
    std::fs::copy(&database.path, &copy.path).unwrap();
    assert_eq!(window(&copy.open().await, &id).await, window(&store, &id).await);
}

#[tokio::test]
async fn a_lock_held_too_long_is_a_retryable_error() {
    let database = TestDatabase::new();
    let id = conversation("a");
    let store = SqliteOptions::new().busy_timeout(Duration::from_millis(20)).open(&database.path).await.unwrap();
    let other = database.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, second) = tokio::join!(store.append(&id, append("x")), store.delete(&id));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert!(error.is_retryable(), "{error:?}");
    }
    other.execute_batch("COMMIT").unwrap();
    say(&store, &id, "y").await;
    assert_eq!(texts(&window(&store, &id).await), ["y"]);
}

#[tokio::test]
async fn opening_a_locked_file_is_a_retryable_error() {
    let database = TestDatabase::new();
    let other = database.connect();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let options = SqliteOptions::new().busy_timeout(Duration::from_millis(20));
    let error = options.clone().open(&database.path).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(database.path.to_str().unwrap()) && text.contains("locked"), "{text}");
    other.execute_batch("COMMIT").unwrap();
    options.open(&database.path).await.unwrap();
}

#[tokio::test]
async fn debug_shows_the_path_only() {
    let database = TestDatabase::new();
    let store = database.open().await;
    say(&store, &conversation("a"), "secret").await;
    let debug = format!("{store:?}");
    assert!(debug.contains("chat.db") && debug.len() < database.path.as_os_str().len() + 40, "{debug}");
    assert_eq!(store.path(), database.path);
}
