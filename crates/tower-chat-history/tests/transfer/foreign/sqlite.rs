//! SQLite files that are damaged.

use rusqlite::Connection;
use tempfile::TempDir;
use tower_chat_history::transfer::foreign::{ForeignError, agents_sqlite, langchain_sqlite, langgraph_sqlite};

use super::{import, import_twice};
use crate::support::TestStore;

fn file(sql: &str) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

#[test]
fn other_databases_are_refused_and_none_is_created() {
    let (folder, path) = file("CREATE TABLE x (y)");
    assert!(matches!(langchain_sqlite(&path), Err(ForeignError::Database(_))));
    assert!(matches!(langgraph_sqlite(&path), Err(ForeignError::Database(_))));
    assert!(matches!(agents_sqlite(&path), Err(ForeignError::Database(_))));
    let missing = folder.path().join("missing.db");
    assert!(langchain_sqlite(&missing).is_err() && !missing.exists());
}

#[tokio::test]
async fn a_damaged_row_skips_its_session_only() {
    let (_folder, path) = file(
        "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT);
         INSERT INTO message_store VALUES (1, 'b', '{\"type\":\"human\",\"data\":{\"content\":\"x\"}}');
         INSERT INTO message_store VALUES (2, 'a', '{\"type\":\"human\",\"data\":{\"content\":\"x\"}}');
         INSERT INTO message_store VALUES (3, 'a', 'secret');
         INSERT INTO message_store VALUES (4, 'a', '{\"type\":\"secret\"}');
         INSERT INTO message_store VALUES (5, 'b', '{\"type\":\"ai\",\"data\":{\"content\":\"y\"}}');",
    );
    let (store, report) = import_twice(|| langchain_sqlite(&path).unwrap()).await;
    assert_eq!((report.stored, report.skipped), (1, 1));
    assert_eq!(report.named[0].to_string(), "line 3: record 3: message 1 is not a valid message");
    assert_eq!(store.logs().into_keys().collect::<Vec<_>>(), ["in/b"]);
}

#[tokio::test]
async fn a_row_that_is_no_text_skips_its_session_only() {
    let (_folder, path) = file(
        "CREATE TABLE message_store (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT);
         INSERT INTO message_store VALUES (1, 'a', NULL);
         INSERT INTO message_store VALUES (2, 'b', x'ff');
         INSERT INTO message_store VALUES (3, x'ff', '{\"type\":\"human\",\"data\":{\"content\":\"x\"}}');
         INSERT INTO message_store VALUES (4, 'c', '{\"type\":\"human\",\"data\":{\"content\":\"x\"}}');",
    );
    let (store, report) = import_twice(|| langchain_sqlite(&path).unwrap()).await;
    assert_eq!((report.stored, report.skipped), (2, 2), "{report:?}");
    assert!(store.logs().contains_key("in/c"));
}

#[tokio::test]
async fn damaged_and_hostile_checkpoints_skip_their_thread() {
    let (_folder, path) = file(
        "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT DEFAULT '', checkpoint_id TEXT, type TEXT, checkpoint BLOB)",
    );
    let deep = [vec![0x91; 1_000_000], vec![0xc0]].concat();
    let claims_much = vec![0xdd, 0xff, 0xff, 0xff, 0xff];
    let fine = br#"{"channel_values":{"messages":[{"lc":2,"type":"constructor","id":["HumanMessage"],"kwargs":{"content":"x","type":"human"}}]}}"#;
    let connection = Connection::open(&path).unwrap();
    let rows: [(&str, &str, &[u8]); 5] = [
        ("a", "msgpack", &deep),
        ("b", "msgpack", &claims_much),
        ("c", "pickle", b"x"),
        ("d", "json", fine),
        ("e", "msgpack", &[0x80]),
    ];
    for (thread, kind, bytes) in rows {
        let insert = "INSERT INTO checkpoints (thread_id, checkpoint_id, type, checkpoint) VALUES (?1, '1', ?2, ?3)";
        connection.execute(insert, rusqlite::params![thread, kind, bytes]).unwrap();
    }
    let report = import(&TestStore::default(), langgraph_sqlite(&path).unwrap()).await;
    assert_eq!((report.stored, report.skipped), (1, 4), "{report:?}");
}
