//! Keys that the server evicted, and records that do not match their entries: calls fail, and never return a wrong
//! history.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, ConversationId, Derived, HistoryStore, HistoryStoreExt, KnownState, List, Load,
    Loaded, Prefix, Prune, PruneTo, Revision, Seq, StoreError, Truncate,
};
use tower_chat_history_redis::LayoutError;

use crate::support::{
    PARTS, TestServer, append, command, compact, connect, conversation, key, recall, say, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_conversation_that_lacks_a_key_is_corrupt,
        a_conversation_that_lacks_an_exchange_is_corrupt,
        a_newer_layout_is_reported_and_not_changed,
        a_missing_key_of_an_unchanged_window_is_corrupt,
        added_exchanges_of_a_log_that_lost_an_element_are_corrupt,
        the_error_names_an_invalid_record,
        swapped_elements_are_corrupt,
        a_damaged_compaction_prevents_no_append,
        a_damaged_compaction_is_reported_without_quoting_it,
        a_truncation_removes_damaged_compactions,
        a_missing_key_of_recalled_messages_is_corrupt,
        a_lost_or_strange_value_is_corrupt,
        an_unchanged_window_needs_the_key,
        damaged_recalled_messages_are_reported_without_quoting_them,
    ]
}

/// Creates two conversations of three exchanges.
async fn setup() -> (TestServer, ConversationId) {
    let test = TestServer::new().await;
    for name in ["damaged", "whole"] {
        for text in ["one", "two", "three"] {
            say(&test.store, &conversation(name), text).await;
        }
    }
    (test, conversation("damaged"))
}

fn assert_no_secret(error: &StoreError) {
    let mut next: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = next {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("secret"), "{shown}");
        next = error.source();
    }
}

/// Asserts that every call but the deletion finds the conversation corrupt, and that a deletion repairs it.
async fn assert_corrupt(test: &TestServer, id: &ConversationId) {
    let store = &test.store;
    let incarnation = window(store, &conversation("whole")).await.revision.incarnation();
    let compact = compact(CompactionVersion::NONE, 1, None);
    for error in [
        store.load(id, Load::new()).await.unwrap_err(),
        store.append(id, append("four")).await.unwrap_err(),
        store.read(id, Seq::FIRST, 9).await.unwrap_err(),
        store.compact(id, incarnation, compact).await.unwrap_err(),
        store.truncate(id, Revision::new(incarnation, 3), Seq::new(1), None).await.unwrap_err(),
        store.prune(id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap_err(),
        store.prune(id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == id), "{error:?}");
        assert_no_secret(&error);
    }
    store.delete(id).await.unwrap();
    assert!(store.load(id, Load::new()).await.unwrap().is_absent());
    assert_eq!(say(store, id, "anew").await.seq, Seq::FIRST);
    assert_eq!(texts(store, &conversation("whole")).await, ["one", "two", "three"]);
}

async fn a_conversation_that_lacks_a_key_is_corrupt() {
    for part in PARTS {
        let (mut test, id) = setup().await;
        assert_eq!(test.run::<u64>(&["DEL", &key(&id, part)]), 1);
        assert_corrupt(&test, &id).await;
    }
    // All keys but one are missing.
    for part in PARTS {
        let (mut test, id) = setup().await;
        for other in PARTS.into_iter().filter(|other| *other != part) {
            assert_eq!(test.run::<u64>(&["DEL", &key(&id, other)]), 1);
        }
        assert_corrupt(&test, &id).await;
    }
}

async fn a_conversation_that_lacks_an_exchange_is_corrupt() {
    for (part, pop) in [(":log", "LPOP"), (":log", "RPOP"), (":index", "LPOP"), (":index", "RPOP")] {
        let (mut test, id) = setup().await;
        test.run::<Vec<u8>>(&[pop, &key(&id, part)]);
        assert_corrupt(&test, &id).await;
    }
}

/// A layout that a later version of the store may have written. This version knows only its first byte.
async fn a_newer_layout_is_reported_and_not_changed() {
    let (mut test, id) = setup().await;
    let revision = window(&test.store, &id).await.revision;
    let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
    test.set_state(&id, b"\x02secret");
    let store = &test.store;
    let compact = compact(CompactionVersion::NONE, 1, None);
    let incarnation = revision.incarnation();
    for error in [
        store.load(&id, Load::new()).await.unwrap_err(),
        store.load(&id, Load::new().known(known.clone())).await.unwrap_err(),
        store.append(&id, append("four")).await.unwrap_err(),
        store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        store.compact(&id, incarnation, compact).await.unwrap_err(),
        store.truncate(&id, revision, Seq::new(1), None).await.unwrap_err(),
        store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Keep).await.unwrap_err(),
        store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err(),
    ] {
        let StoreError::Backend { source } = &error else { panic!("{error:?}") };
        assert_eq!(source.downcast_ref(), Some(&LayoutError::Newer { found: 2, known: 1 }));
        assert!(!error.is_retryable());
        assert_no_secret(&error);
    }
    let page = test.store.list(&Prefix::all(), None, 9).await.unwrap();
    let whole: Vec<_> = page.conversations.iter().map(|listed| listed.id.as_str()).collect();
    let damaged: Vec<_> = page.damaged.iter().map(|damaged| damaged.id.as_str()).collect();
    assert_eq!(whole, ["test/whole"]);
    assert_eq!(damaged, ["test/damaged"]);
    assert_eq!(test.state(&id), b"\x02secret");
    assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 3, "nothing was changed");
    assert_eq!(texts(&test.store, &conversation("whole")).await.len(), 3);
}

/// A load of an unchanged window returns nothing from the lists.
async fn a_missing_key_of_an_unchanged_window_is_corrupt() {
    for part in PARTS.into_iter().skip(1) {
        let (test, id) = setup().await;
        let revision = window(&test.store, &id).await.revision;
        let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
        let load = Load::new().known(known.clone());
        assert_eq!(test.store.load(&id, load.clone()).await.unwrap(), Loaded::Unchanged);
        command(&["DEL", &key(&id, part)]).query::<()>(&mut connect(&test.server)).unwrap();
        assert!(matches!(test.store.load(&id, load.clone()).await, Err(StoreError::Corrupt { .. })), "{part}");
    }
}

/// A load of added exchanges needs the positions of the lists.
async fn added_exchanges_of_a_log_that_lost_an_element_are_corrupt() {
    for part in [":log", ":index"] {
        let (test, id) = setup().await;
        let known = window(&test.store, &id).await.known();
        say(&test.store, &id, "added").await;
        let load = Load::new().known(known.clone()).or_added();
        assert!(matches!(test.store.load(&id, load.clone()).await.unwrap(), Loaded::Added(_)));
        command(&["LPOP", &key(&id, part)]).query::<()>(&mut connect(&test.server)).unwrap();
        assert!(matches!(test.store.load(&id, load.clone()).await, Err(StoreError::Corrupt { .. })), "{part}");
    }
}

/// Swapped elements of a list, and elements of another conversation. The order of a log never changes.
async fn swapped_elements_are_corrupt() {
    for part in [":log", ":index"] {
        let (mut test, id) = setup().await;
        let other = key(&conversation("whole"), part);
        let key = key(&id, part);
        let [one, two]: [Vec<u8>; 2] = ["0", "1"].map(|at| test.run(&["LINDEX", &key, at]));
        let others: Vec<u8> = test.run(&["LINDEX", &other, "1"]);
        for elements in [[&two, &one], [&one, &one], [&one, &others]] {
            for (at, element) in elements.into_iter().enumerate() {
                test.set_element(&key, at, element);
            }
            for error in [
                test.store.load(&id, Load::new()).await.unwrap_err(),
                test.store.conversation(&id).messages().await.unwrap_err(),
            ] {
                assert!(matches!(&error, StoreError::Corrupt { .. }), "{part}: {error:?}");
                assert_no_secret(&error);
            }
        }
        for (at, element) in [&one, &two].into_iter().enumerate() {
            test.set_element(&key, at, element);
        }
        assert_eq!(texts(&test.store, &id).await, ["one", "two", "three"]);
    }
}

async fn the_error_names_an_invalid_record() {
    for damage in ["{secret", "", r#"{"v":9}"#] {
        let (mut test, id) = setup().await;
        test.run::<()>(&["LSET", &key(&id, ":log"), "1", damage]);
        for error in [
            test.store.load(&id, Load::new()).await.unwrap_err(),
            test.store.conversation(&id).messages().await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Corrupt { seq, .. } if seq == Seq::new(1)), "{error:?}");
            assert_no_secret(&error);
        }
        assert_eq!(test.store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 1);
        assert_eq!(say(&test.store, &id, "four").await.seq, Seq::new(3), "the log can be continued");
    }
}

/// The exchange was paid for, so it is stored whatever the state of the stored compaction.
async fn a_damaged_compaction_prevents_no_append() {
    for numbers in ["secret", "1 1", "", "1 1 2 ab"] {
        for replaces in [0, 1, 77] {
            let (mut test, id) = setup().await;
            test.run::<()>(&["HSET", &key(&id, ""), "v:default", numbers, "c:default", "state", "d:default", ""]);
            let compact = compact(CompactionVersion::new(replaces), 1, None);
            let appended = test.store.append(&id, append("four").compact(compact)).await.unwrap();
            assert_eq!((appended.seq, appended.duplicate), (Seq::new(3), false), "{numbers}");
            assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{numbers}");
            assert_eq!(test.store.conversation(&id).messages().await.unwrap().len(), 8);
        }
    }
}

async fn a_damaged_compaction_is_reported_without_quoting_it() {
    for (numbers, field) in [("secret", "c:default"), ("1 99 0 ab", "c:default"), ("1 1 1 ab", "d:other")] {
        let (mut test, id) = setup().await;
        let incarnation = window(&test.store, &id).await.revision.incarnation();
        test.run::<()>(&["HSET", &key(&id, ""), "v:default", numbers, field, "secret"]);
        let error = test.store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{numbers}: {error:?}");
        assert_no_secret(&error);
        let refused = test.store.compact(&id, incarnation, compact(CompactionVersion::new(7), 1, None)).await;
        assert!(refused.is_err() || numbers == "1 99 0 ab", "{numbers}: {refused:?}");
    }
}

async fn a_truncation_removes_damaged_compactions() {
    let (mut test, id) = setup().await;
    test.run::<()>(&["HSET", &key(&id, ""), "v:default", "secret", "c:default", "secret", "d:other", "secret"]);
    assert_eq!(test.store.conversation(&id).truncate(Seq::new(2)).await.unwrap().removed, 1);
    let mut fields: Vec<String> = test.run(&["HKEYS", &key(&id, "")]);
    fields.retain(|field| field.contains(':'));
    assert_eq!(fields, [""; 0]);
    assert_eq!(texts(&test.store, &id).await, ["one", "two"]);
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
    let load = Load::new().known(known);
    assert_eq!(store.load(&id, load.clone()).await.unwrap(), Loaded::Unchanged);
    test.run::<()>(&["DEL", &key(&id, ":recalled")]);
    assert!(matches!(store.load(&id, load.clone()).await, Err(StoreError::Corrupt { .. })));
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
