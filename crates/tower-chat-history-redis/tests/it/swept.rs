//! Exchanges that a truncation or a prune removes are swept in steps, even if the call was interrupted.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Exchange, Expect, HistoryStore, HistoryStoreExt, Incarnation, Load, Loaded, Prune,
    PruneTo, Revision, Seq, StoreError, Truncate,
};

use crate::support::{BEGINNING, BEHIND, END, SUMS, TestServer, conversation, exchange, key, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_long_log_is_swept_in_steps,
        nothing_remains_of_removed_exchanges,
        an_interrupted_prune_is_completed,
        an_interrupted_truncation_is_completed,
        a_repeat_that_is_refused_removes_the_rest,
    ]
}

async fn log_of(test: &TestServer, len: usize) -> (ConversationId, Vec<Exchange>) {
    let id = conversation("long");
    let mut log = Vec::new();
    for n in 0..len {
        let exchange = exchange(&format!("secret {n}"));
        test.store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
        log.push(exchange);
    }
    (id, log)
}

async fn a_long_log_is_swept_in_steps() {
    let mut test = TestServer::new().await;
    let (id, _) = log_of(&test, 3_500).await;
    let store = test.store.clone();
    let incarnation = store.read(&id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation();
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    let pruned = store.prune(&id, incarnation, PruneTo::LastTurns(1_000), Derived::Keep).await.unwrap();
    assert_eq!(pruned.removed, 2_500);
    assert_eq!(
        test.calls("evalsha") + test.calls("eval"),
        1 + 3 + 2,
        "one decides, three remove, two scripts were not cached"
    );
    assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 1_000);
    assert_eq!(test.run::<u64>(&["HLEN", &key(&id, ":ids")]), 1_000);
}

async fn nothing_remains_of_removed_exchanges() {
    let mut test = TestServer::new().await;
    let (id, log) = log_of(&test, 10).await;
    let conversation = test.store.clone();
    conversation.conversation(&id).keep_last_turns(8).await.unwrap();
    conversation.conversation(&id).truncate(Seq::new(5)).await.unwrap();
    assert_eq!(texts(&test.store, &id).await, ["secret 2", "secret 3", "secret 4"]);
    let log_key: Vec<String> = test.run(&["LRANGE", &key(&id, ":log"), "0", "-1"]);
    let index: Vec<Vec<u8>> = test.run(&["LRANGE", &key(&id, ":index"), "0", "-1"]);
    let mut ids: Vec<String> = test.run(&["HKEYS", &key(&id, ":ids")]);
    ids.sort();
    let mut expected: Vec<String> = log[2..5].iter().map(|exchange| exchange.id.to_string()).collect();
    assert!(index.iter().zip(&expected).all(|(entry, id)| entry.ends_with(id.as_bytes())), "{index:?}");
    expected.sort();
    assert_eq!((log_key.len(), index.len(), ids), (3, 3, expected));
}

/// The state after a prune whose caller left before anything was swept.
async fn an_interrupted_prune_is_completed() {
    let mut test = TestServer::new().await;
    let (id, log) = log_of(&test, 200).await;
    test.change_state(&id, &[(BEGINNING, 150)]);
    let store = test.store.clone();
    let page = store.read(&id, Seq::FIRST, 500).await.unwrap();
    assert_eq!((page.exchanges.len(), page.exchanges[0].seq), (50, Seq::new(150)));
    assert_eq!(texts(&store, &id).await[0], "secret 150");
    let asked = Load::new().exchange(log[0].id.clone());
    assert!(matches!(store.load(&id, asked).await.unwrap(), Loaded::Window(_)), "its id can be used again");
    // Each append sweeps a part of the rest.
    assert_eq!(say(&store, &id, "next").await.seq, Seq::new(200));
    assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 201 - 64);
    // An append with the id of a removed exchange sweeps everything.
    let again = store.append(&id, Append::new(Expect::AnyOrCreate, log[149].clone())).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(201), false));
    assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 52);
    assert_eq!(test.run::<u64>(&["HLEN", &key(&id, ":ids")]), 52);
    assert_eq!(texts(&store, &id).await.len(), 52);
}

async fn an_interrupted_truncation_is_completed() {
    let mut test = TestServer::new().await;
    let (id, log) = log_of(&test, 10).await;
    test.change_state(&id, &[(END, 4), (BEHIND, 6)]);
    let mut state = test.state(&id);
    let entry: Vec<u8> = test.run(&["LINDEX", &key(&id, ":index"), "4"]);
    state[SUMS].copy_from_slice(&entry[1..=SUMS.len()]);
    test.set_state(&id, &state);
    let store = test.store.clone();
    assert_eq!(texts(&store, &id).await.len(), 4);
    assert!(!store.read(&id, Seq::FIRST, 500).await.unwrap().more);
    let again = store.append(&id, Append::new(Expect::AnyOrCreate, log[7].clone())).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(4), false));
    assert_eq!(texts(&store, &id).await, ["secret 0", "secret 1", "secret 2", "secret 3", "secret 7"]);
    assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 5);
}

/// The caller of a prune or of a truncation left before everything was removed, and repeats the call.
async fn a_repeat_that_is_refused_removes_the_rest() {
    for prunes in [true, false] {
        let mut test = TestServer::new().await;
        let (id, _) = log_of(&test, 200).await;
        test.change_state(&id, &[(BEGINNING, 150)]);
        let store = test.store.clone();
        let ended = Revision::new(Incarnation::random(), 200);
        let refused = if prunes {
            let pruned = store.prune(&id, ended.incarnation(), PruneTo::LastTurns(50), Derived::Erase).await;
            pruned.unwrap_err()
        } else {
            store.truncate(&id, ended, Seq::new(150), None).await.unwrap_err()
        };
        assert!(matches!(refused, StoreError::Gone), "{refused:?}");
        assert_eq!(test.run::<u64>(&["LLEN", &key(&id, ":log")]), 50);
        assert_eq!(texts(&store, &id).await.len(), 50);
    }
}
