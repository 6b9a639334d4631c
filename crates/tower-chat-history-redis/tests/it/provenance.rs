//! Provenances, which have a key of their own.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    CompactionVersion, ConversationId, Derived, HistoryStore, HistoryStoreExt, KnownState, Load, Loaded, PruneTo, Seq,
    StoreError,
};

use crate::support::{PARTS, TestServer, append, conversation, key, make, providers, recall, say, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_conversation_without_provenances_has_no_key_for_them,
        a_turn_without_provenances_does_not_read_them,
        provenances_are_removed_with_their_exchanges,
        an_erasure_removes_all_provenances_at_once,
        large_provenances_end_a_page,
        damaged_provenances_are_reported_without_quoting_them,
        a_provenance_with_a_line_break_is_corrupt,
        a_missing_key_of_provenances_is_corrupt,
        a_lost_or_additional_provenance_is_corrupt,
    ]
}

async fn held(test: &mut TestServer, id: &ConversationId) -> u64 {
    test.run(&["LLEN", &key(id, ":provenances")])
}

async fn a_conversation_without_provenances_has_no_key_for_them() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let store = test.store.clone();
    say(&store, &id, "one").await;
    say(&store, &id, "two").await;
    assert_eq!(test.conversation_keys(), 4);
    make(&store, &id, "p").await;
    assert_eq!((test.conversation_keys(), held(&mut test, &id).await), (5, 1));
    store.delete(&id).await.unwrap();
    assert_eq!(test.conversation_keys(), 0);
}

const COMMANDS: [&str; 5] = ["lrange", "rpush", "hset", "llen", "evalsha"];

async fn a_turn_without_provenances_does_not_read_them() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for with_provenance in [false, true, true] {
        if with_provenance {
            make(&test.store, &id, "p").await;
        } else {
            say(&test.store, &id, "one").await;
        }
        window(&test.store, &id).await;
    }
    let other = conversation("other");
    say(&test.store, &other, "one").await;
    // The first provenance begins a list, which then has an element for each exchange.
    for (id, [load, plain, full]) in [
        (&other, [[2, 0, 0, 2, 1], [0, 2, 2, 2, 1], [0, 3, 2, 2, 1]]),
        (&id, [[3, 0, 0, 3, 1], [0, 3, 2, 3, 1], [0, 3, 2, 3, 1]]),
    ] {
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        window(&test.store, id).await;
        assert_eq!(COMMANDS.map(|command| test.calls(command)), load, "a load of {id}");
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        say(&test.store, id, "more").await;
        assert_eq!(COMMANDS.map(|command| test.calls(command)), plain, "an append to {id}");
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        make(&test.store, id, "p").await;
        assert_eq!(COMMANDS.map(|command| test.calls(command)), full, "an append with a provenance to {id}");
    }
}

async fn provenances_are_removed_with_their_exchanges() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let store = test.store.clone();
    for turn in 0..1_500 {
        match turn % 3 {
            0 => say(&store, &id, "none").await,
            _ => make(&store, &id, &turn.to_string()).await,
        };
    }
    store.conversation(&id).truncate(Seq::new(1_400)).await.unwrap();
    assert_eq!(held(&mut test, &id).await, 1_399);
    store.conversation(&id).prune(PruneTo::From(Seq::new(1_390)), Derived::Keep).await.unwrap();
    assert_eq!(held(&mut test, &id).await, 10);
    let expected = (1_390..1_400).map(|turn| if turn % 3 == 0 { String::new() } else { turn.to_string() });
    assert_eq!(providers(&store, &id).await, expected.collect::<Vec<_>>());
}

async fn an_erasure_removes_all_provenances_at_once() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let store = test.store.clone();
    say(&store, &id, "one").await;
    make(&store, &id, "secret").await;
    recall(&store, &id, "shown", &[1]).await;
    make(&store, &id, "secret").await;
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    assert_eq!(providers(&store, &id).await, ["secret", "", "secret"]);
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert!(!test.run::<bool>(&["EXISTS", &key(&id, ":provenances")]));
    assert_eq!(providers(&store, &id).await, ["", "", ""]);
    make(&store, &id, "later").await;
    assert_eq!(providers(&store, &id).await, ["", "", "", "later"]);
}

async fn large_provenances_end_a_page() {
    let test = TestServer::new().await;
    let id = conversation("large");
    for size in [1_500_000, 1_500_000, 1_500_000, 6_000_000, 100] {
        make(&test.store, &id, &"x".repeat(size)).await;
    }
    say(&test.store, &id, "more").await;
    assert_eq!(page_sizes(&test.store, &id, 100).await, [2, 1, 1, 2]);
}

/// Creates a conversation of four exchanges. Those at 1 and 2 have a provenance.
async fn setup() -> (TestServer, ConversationId) {
    let test = TestServer::new().await;
    let id = conversation("a");
    say(&test.store, &id, "one").await;
    make(&test.store, &id, "secret").await;
    make(&test.store, &id, "secret").await;
    say(&test.store, &id, "four").await;
    (test, id)
}

async fn damaged_provenances_are_reported_without_quoting_them() {
    for value in ["secret", "{}", r#"[9,"secret"]"#, r#"[1,"secret"]"#] {
        let (mut test, id) = setup().await;
        let asked = window(&test.store, &id).await.exchanges[1].exchange.id.clone();
        test.run::<()>(&["LSET", &key(&id, ":provenances"), "0", value]);
        let store = &test.store;
        for error in [
            store.load(&id, Load::new()).await.unwrap_err(),
            store.load(&id, Load::new().exchange(asked)).await.unwrap_err(),
            store.read(&id, Seq::FIRST, 9).await.unwrap_err(),
        ] {
            assert!(matches!(&error, StoreError::Corrupt { seq, .. } if *seq == Seq::new(1)), "{value}: {error:?}");
            assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        }
        assert_eq!(store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 2, "{value}");
    }
}

async fn a_provenance_with_a_line_break_is_corrupt() {
    let (mut test, id) = setup().await;
    test.run::<()>(&["LSET", &key(&id, ":provenances"), "0", "secret\nsecret"]);
    for (from, limit) in [(Seq::FIRST, 9), (Seq::new(1), 1)] {
        let error = test.store.read(&id, from, limit).await.unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { seq, .. } if *seq == from), "{error:?}");
    }
    assert_eq!(test.store.read(&id, Seq::new(2), 9).await.unwrap().exchanges.len(), 2);
}

async fn assert_damaged(test: &TestServer, id: &ConversationId) {
    for error in [
        test.store.load(id, Load::new()).await.unwrap_err(),
        test.store.append(id, append("more")).await.unwrap_err(),
        test.store.read(id, Seq::FIRST, 9).await.unwrap_err(),
        test.store.conversation(id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap_err(),
    ] {
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{error:?}");
    }
    test.store.delete(id).await.unwrap();
    assert!(test.store.load(id, Load::new()).await.unwrap().is_absent());
}

async fn a_missing_key_of_provenances_is_corrupt() {
    let (mut test, id) = setup().await;
    let revision = window(&test.store, &id).await.revision;
    let known = KnownState { revision, compaction: CompactionVersion::NONE, newest: None };
    assert_eq!(test.store.load(&id, Load::new().known(known.clone())).await.unwrap(), Loaded::Unchanged);
    assert_eq!(test.run::<u64>(&["DEL", &key(&id, ":provenances")]), 1);
    let error = test.store.load(&id, Load::new().known(known)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { .. }), "{error:?}");
    assert_damaged(&test, &id).await;
    // Only this key is left.
    let (mut test, id) = setup().await;
    for part in PARTS {
        test.run::<()>(&["DEL", &key(&id, part)]);
    }
    assert_damaged(&test, &id).await;
}

async fn a_lost_or_additional_provenance_is_corrupt() {
    let (mut test, id) = setup().await;
    test.run::<String>(&["RPOP", &key(&id, ":provenances")]);
    assert_damaged(&test, &id).await;
    let (mut test, id) = setup().await;
    test.run::<()>(&["RPUSH", &key(&id, ":provenances"), "secret"]);
    assert_damaged(&test, &id).await;
}
