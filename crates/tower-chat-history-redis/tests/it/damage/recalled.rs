//! Damaged recalled messages. The state says how many there are, and the index says which exchanges have some.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    CompactionVersion, ConversationId, HistoryStore, HistoryStoreExt, KnownState, Load, Loaded, Seq, StoreError,
};

use super::{assert_corrupt, assert_no_secret, setup};
use crate::support::{PARTS, TestServer, key, recall, window};

pub(super) fn tests() -> Vec<Trial> {
    trials![
        a_missing_key_of_recalled_messages_is_corrupt,
        a_lost_or_strange_value_is_corrupt,
        an_unchanged_window_needs_the_key,
        damaged_recalled_messages_are_reported_without_quoting_them,
    ]
}

/// Adds two exchanges with recalled messages, at positions 3 and 4.
async fn recalling() -> (TestServer, ConversationId) {
    let (test, id) = setup().await;
    recall(&test.store, &id, "secret three", &[0]).await;
    recall(&test.store, &id, "secret four", &[1]).await;
    (test, id)
}

async fn a_missing_key_of_recalled_messages_is_corrupt() {
    let (mut test, id) = recalling().await;
    assert_eq!(test.run::<u64>(&["DEL", &key(&id, ":recalled")]), 1);
    assert_corrupt(&test, &id).await;
    // Only this key is left.
    let (mut test, id) = recalling().await;
    for part in PARTS {
        test.run::<()>(&["DEL", &key(&id, part)]);
    }
    assert_corrupt(&test, &id).await;
}

async fn a_lost_or_strange_value_is_corrupt() {
    let (mut test, id) = recalling().await;
    test.run::<()>(&["HDEL", &key(&id, ":recalled"), "3"]);
    assert_corrupt(&test, &id).await;
    let (mut test, id) = recalling().await;
    test.run::<()>(&["HSET", &key(&id, ":recalled"), "1", "secret"]);
    assert_corrupt(&test, &id).await;
}

async fn an_unchanged_window_needs_the_key() {
    let (mut test, id) = recalling().await;
    let revision = window(&test.store, &id).await.revision;
    let store = test.store.clone();
    let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
    let load = || store.load(&id, Load::new().known(known.clone()));
    assert_eq!(load().await.unwrap(), Loaded::Unchanged);
    test.run::<()>(&["DEL", &key(&id, ":recalled")]);
    assert!(matches!(load().await, Err(StoreError::Corrupt { .. })));
}

/// Asserts that every call that returns the exchange at position 3 fails.
async fn assert_unreadable(test: &TestServer, id: &ConversationId, what: &str) {
    let store = &test.store;
    let newest = store.read(id, Seq::new(4), 1).await.map(|page| page.exchanges.len());
    assert!(newest.is_err() || newest.is_ok_and(|len| len == 1));
    for error in [
        store.load(id, Load::new()).await.unwrap_err(),
        store.read(id, Seq::FIRST, 9).await.unwrap_err(),
        store.conversation(id).messages().await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { seq, .. } if *seq == Seq::new(3)), "{what}: {error:?}");
        assert_no_secret(&error);
    }
}

async fn damaged_recalled_messages_are_reported_without_quoting_them() {
    for value in ["secret", " ", "0 secret", r#"0 {"v":9,"secret":1}"#] {
        let (mut test, id) = recalling().await;
        let asked = window(&test.store, &id).await.exchanges[3].exchange.id.clone();
        test.run::<()>(&["HSET", &key(&id, ":recalled"), "3", value]);
        assert_unreadable(&test, &id, value).await;
        let error = test.store.load(&id, Load::new().exchange(asked)).await.unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{value}: {error:?}");
        assert_no_secret(&error);
    }
}
