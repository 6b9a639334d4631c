//! What is refused is left as it is, byte for byte.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use support::{Place, conversation, say};
use tower_chat_history_sqlite::{OpenError, SqliteStore};

#[tokio::test]
async fn a_file_that_is_too_short_to_be_a_database_is_left_alone() {
    for bytes in [&b"x"[..], b"S", b"xy", b"SQLite format 3\0", &[0; 99], &[0; 100], &[b'x'; 600]] {
        let place = Place::new();
        fs::write(&place.path, bytes).unwrap();
        let error = SqliteStore::open(&place.path).await.unwrap_err();
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
        assert!(fs::read(&place.path).unwrap() == bytes);
    }
    let place = Place::new();
    fs::write(&place.path, "").unwrap();
    say(&place.open().await, &conversation("a"), "an empty file is a new database").await;
}
