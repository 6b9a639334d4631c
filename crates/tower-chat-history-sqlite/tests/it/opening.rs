//! What may be opened, and what is found in it.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use tower_chat_history_core::{
    Append, Compact, CompactionVersion, Cut, Expect, HistoryStore, HistoryStoreExt, Load, LoadLimit, Loaded, Message,
    Profile, Seq, StoreError, Summary,
};
use tower_chat_history_sqlite::{Closed, OpenError, SqliteOptions, SqliteStore, Synchronous};

use crate::support::{Place, append, begin, conversation, exchange, say, texts, window};

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let place = Place::new();
    let id = conversation("a");
    let odd = "{ \"role\":\"user\", \"x\": 1.0, \"content\":\"\\u0000 ü\" }";
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        let store = SqliteOptions::new().synchronous(synchronous).readers(1).open(&place.path).await.unwrap();
        store.delete(&id).await.unwrap();
        let mut first = exchange("one");
        first.messages.push(Message::from_json(odd).unwrap());
        let first = store.append(&id, Append::new(Expect::Absent, first)).await.unwrap();
        let mut cut = Cut::window_from(Seq::new(1));
        cut.summary = Some(Summary::new("they said hello", Seq::new(1)));
        let compact = Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut };
        let second = Append::new(Expect::Exactly(first.revision), exchange("two")).compact(compact);
        store.append(&id, second).await.unwrap();
        let before = window(&store, &id).await;
        store.close().await.unwrap();

        let store = place.open().await;
        assert_eq!(window(&store, &id).await, before);
        assert_eq!(store.conversation(&id).messages().await.unwrap()[2].json(), odd);
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_dropped_store_leaves_the_file_to_the_next() {
    let place = Place::new();
    let id = conversation("a");
    for turn in 0..5 {
        let store = place.open().await;
        let appended = say(&store, &id, "x").await;
        assert_eq!(appended.seq, Seq::new(turn));
    }
}

#[tokio::test]
async fn closing_ends_all_handles_and_empties_the_log() {
    let place = Place::new();
    let id = conversation("a");
    let store = place.open().await;
    say(&store, &id, "x").await;
    let other = store.clone();
    let (first, second) = tokio::join!(store.clone().close(), store.close());
    first.unwrap();
    second.unwrap();
    assert!(!place.path.with_extension("db-wal").exists(), "the last connection takes the log with it");
    let refused = [
        other.load(&id, Load::new()).await.unwrap_err(),
        other.append(&id, append("y")).await.unwrap_err(),
        other.checkpoint().await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(&error, StoreError::Backend { source } if source.is::<Closed>()), "{error:?}");
    }
    other.close().await.unwrap();
}

#[tokio::test]
async fn calls_under_way_are_finished_before_closing() {
    let place = Place::new();
    let id = conversation("a");
    let store = place.open().await;
    let calls: Vec<_> = (0..20).map(|_| begin(store.append(&id, append("x")))).collect();
    store.clone().close().await.unwrap();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(window(&place.open().await, &id).await.exchanges.len(), 20);
}

#[tokio::test]
async fn the_file_is_closed_after_its_last_reader() {
    let place = Place::new();
    let id = conversation("a");
    let store = place.open().await;
    for _ in 0..5 {
        say(&store, &id, &"x".repeat(4_000_000)).await;
    }
    let everything = Load::new().limit(LoadLimit::new(usize::MAX, usize::MAX).unwrap());
    let load = begin(store.load(&id, everything));
    store.clone().close().await.unwrap();
    assert!(!place.path.with_extension("db-wal").exists());
    assert!(matches!(load.await.unwrap(), Loaded::Window(window) if window.exchanges.len() == 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_open_a_new_file_at_once() {
    for _ in 0..20 {
        let place = Place::new();
        let barrier = Arc::new(Barrier::new(12));
        let threads: Vec<_> = (0..12)
            .map(|_| {
                let (path, barrier) = (place.path.clone(), Arc::clone(&barrier));
                thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    barrier.wait();
                    runtime.block_on(SqliteStore::open(path)).map(drop)
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    for path in ["", ":memory:"] {
        let error = SqliteStore::open(path).await.unwrap_err();
        assert!(matches!(error, OpenError::NotAFile) && error.to_string().contains("MemoryStore"), "{error}");
    }
    let place = Place::new();
    std::fs::write(&place.path, "this is a text and no database, and long enough to be told apart from one".repeat(9))
        .unwrap();
    assert!(matches!(SqliteStore::open(&place.path).await, Err(OpenError::NotADatabase { .. })));
}

#[tokio::test]
async fn foreign_databases_are_refused_and_left_alone() {
    let place = Place::new();
    place.connect().execute_batch("CREATE TABLE theirs (x); PRAGMA user_version = 1").unwrap();
    let before = std::fs::read(&place.path).unwrap();
    let error = SqliteStore::open(&place.path).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign { application_id: 0, .. }), "{error}");
    assert_eq!(std::fs::read(&place.path).unwrap(), before);
}

#[tokio::test]
async fn newer_schemas_are_refused() {
    let place = Place::new();
    place.open().await.close().await.unwrap();
    place.connect().pragma_update(None, "user_version", 1_000).unwrap();
    let error = SqliteStore::open(&place.path).await.unwrap_err();
    assert!(matches!(error, OpenError::NewerSchema { found: 1_000, .. }), "{error}");
}

#[tokio::test]
async fn a_database_of_version_1_is_read_and_continued() {
    let place = Place::new();
    place.connect().execute_batch(include_str!("frozen/version-1.sql")).unwrap();
    let store = place.open().await;
    let id = "acme/user%2042".parse().unwrap();
    let log = store.conversation(&id).exchanges().await.unwrap();
    let ids: Vec<_> = log.iter().map(|recorded| recorded.exchange.id.as_str()).collect();
    assert_eq!(ids, ["e0", "e1", "e2"]);
    assert_eq!(log[1].exchange.continues, Some(Seq::new(0)));
    let loaded = window(&store, &id).await;
    assert_eq!(loaded.revision.to_string(), "00112233445566778899aabbccddeeff.3");
    assert_eq!(loaded.compaction.unwrap().cut.summary.unwrap().text, "They greeted each other.");
    assert_eq!(loaded.exchanges, log[2..]);
    assert_eq!(say(&store, &id, "and on").await.seq, Seq::new(3));

    let id = "acme/pruned".parse().unwrap();
    let log = store.conversation(&id).exchanges().await.unwrap();
    let ids: Vec<_> = log.iter().map(|recorded| (recorded.seq.get(), recorded.exchange.id.as_str())).collect();
    assert_eq!(ids, [(2, "e2"), (3, "e3")]);
    let loaded = window(&store, &id).await;
    assert_eq!(loaded.revision.to_string(), "ffeeddccbbaa99887766554433221100.4.2");
    assert_eq!(loaded.compaction.unwrap().cut.summary.unwrap().text, "They greeted each other.");
    assert_eq!((loaded.exchanges, loaded.truncated), (log, false));
    assert_eq!(say(&store, &id, "and on").await.seq, Seq::new(4));
    store.close().await.unwrap();

    let fresh = Place::new();
    fresh.open().await.close().await.unwrap();
    let columns = |place: &Place| -> Vec<String> {
        let connection = place.connect();
        let sql = "SELECT m.name || ' ' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || c.pk
                   FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' ORDER BY 1";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert_eq!(columns(&place), columns(&fresh), "old files become what new files are");
}

#[tokio::test]
async fn deleted_text_is_gone_from_the_files_after_a_checkpoint() {
    let place = Place::new();
    let store = place.open().await;
    let (id, other) = (conversation("a"), conversation("b"));
    for _ in 0..50 {
        say(&store, &id, &"the secret of the pharaohs ".repeat(200)).await;
    }
    say(&store, &other, "kept").await;
    assert!(place.contains("pharaohs"));
    store.delete(&id).await.unwrap();
    store.checkpoint().await.unwrap();
    assert!(!place.contains("pharaohs"));
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), Loaded::Absent);
    assert_eq!(texts(&window(&store, &other).await), ["kept"]);
    assert_eq!(say(&store, &id, "again").await.seq, Seq::FIRST);
}

#[tokio::test]
async fn a_lock_held_too_long_is_unavailable_and_passes() {
    let place = Place::new();
    let id = conversation("a");
    let store = SqliteOptions::new().busy_timeout(Duration::from_millis(20)).open(&place.path).await.unwrap();
    let other = place.connect();
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
async fn debug_shows_the_path_only() {
    let place = Place::new();
    let store = place.open().await;
    say(&store, &conversation("a"), "secret").await;
    let debug = format!("{store:?}");
    assert!(debug.contains("chat.db") && debug.len() < place.path.as_os_str().len() + 40, "{debug}");
    assert_eq!(store.path(), place.path);
}
