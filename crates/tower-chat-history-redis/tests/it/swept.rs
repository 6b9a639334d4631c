//! What a truncation or a prune takes off a log goes in steps, also when it is broken off.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Exchange, Expect, HistoryStore, HistoryStoreExt, Load, Loaded, Prune, PruneTo, Seq,
};

use crate::support::{BEGINNING, BEHIND, END, Place, SUMS, conversation, exchange, key, say, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_long_log_is_taken_apart_in_steps,
        nothing_is_left_of_what_was_removed,
        a_prune_that_was_broken_off_is_done,
        a_truncation_that_was_broken_off_is_done,
    ]
}

async fn log_of(place: &Place, len: usize) -> (ConversationId, Vec<Exchange>) {
    let id = conversation("long");
    let mut log = Vec::new();
    for n in 0..len {
        let exchange = exchange(&format!("secret {n}"));
        place.store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
        log.push(exchange);
    }
    (id, log)
}

async fn a_long_log_is_taken_apart_in_steps() {
    let mut place = Place::new().await;
    let (id, _) = log_of(&place, 3_500).await;
    let store = place.store.clone();
    let incarnation = store.read(&id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation();
    place.run::<()>(&["CONFIG", "RESETSTAT"]);
    let pruned = store.prune(&id, incarnation, PruneTo::LastTurns(1_000), Derived::Keep).await.unwrap();
    assert_eq!(pruned.removed, 2_500);
    assert_eq!(
        place.calls("evalsha") + place.calls("eval"),
        1 + 3 + 2,
        "one decides, three remove, two were not known"
    );
    assert_eq!(place.run::<u64>(&["LLEN", &key(&id, ":log")]), 1_000);
    assert_eq!(place.run::<u64>(&["HLEN", &key(&id, ":ids")]), 1_000);
}

async fn nothing_is_left_of_what_was_removed() {
    let mut place = Place::new().await;
    let (id, log) = log_of(&place, 10).await;
    let conversation = place.store.clone();
    conversation.conversation(&id).keep_last_turns(8).await.unwrap();
    conversation.conversation(&id).truncate(Seq::new(5)).await.unwrap();
    assert_eq!(texts(&place.store, &id).await, ["secret 2", "secret 3", "secret 4"]);
    let log_key: Vec<String> = place.run(&["LRANGE", &key(&id, ":log"), "0", "-1"]);
    let index: Vec<Vec<u8>> = place.run(&["LRANGE", &key(&id, ":index"), "0", "-1"]);
    let mut ids: Vec<String> = place.run(&["HKEYS", &key(&id, ":ids")]);
    ids.sort();
    let mut expected: Vec<String> = log[2..5].iter().map(|exchange| exchange.id.to_string()).collect();
    assert!(index.iter().zip(&expected).all(|(entry, id)| entry.ends_with(id.as_bytes())), "{index:?}");
    expected.sort();
    assert_eq!((log_key.len(), index.len(), ids), (3, 3, expected));
}

/// The state that a prune leaves whose caller went away before anything was swept.
async fn a_prune_that_was_broken_off_is_done() {
    let mut place = Place::new().await;
    let (id, log) = log_of(&place, 200).await;
    place.change_state(&id, &[(BEGINNING, 150)]);
    let store = place.store.clone();
    let page = store.read(&id, Seq::FIRST, 500).await.unwrap();
    assert_eq!((page.exchanges.len(), page.exchanges[0].seq), (50, Seq::new(150)));
    assert_eq!(texts(&store, &id).await[0], "secret 150");
    let asked = Load::new().exchange(log[0].id.clone());
    assert!(matches!(store.load(&id, asked).await.unwrap(), Loaded::Window(_)), "its id is free again");
    // Each append takes a part of the rest along.
    assert_eq!(say(&store, &id, "next").await.seq, Seq::new(200));
    assert_eq!(place.run::<u64>(&["LLEN", &key(&id, ":log")]), 201 - 64);
    // One that has a removed exchange's id takes all of it.
    let again = store.append(&id, Append::new(Expect::AnyOrCreate, log[149].clone())).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(201), false));
    assert_eq!(place.run::<u64>(&["LLEN", &key(&id, ":log")]), 52);
    assert_eq!(place.run::<u64>(&["HLEN", &key(&id, ":ids")]), 52);
    assert_eq!(texts(&store, &id).await.len(), 52);
}

async fn a_truncation_that_was_broken_off_is_done() {
    let mut place = Place::new().await;
    let (id, log) = log_of(&place, 10).await;
    place.change_state(&id, &[(END, 4), (BEHIND, 6)]);
    let (mut state, entry) = (place.state(&id), place.run::<Vec<u8>>(&["LINDEX", &key(&id, ":index"), "4"]));
    let sums = &mut state[SUMS..];
    sums.copy_from_slice(&entry[1..=sums.len()]);
    place.set_state(&id, &state);
    let store = place.store.clone();
    assert_eq!(texts(&store, &id).await.len(), 4);
    assert!(!store.read(&id, Seq::FIRST, 500).await.unwrap().more);
    let again = store.append(&id, Append::new(Expect::AnyOrCreate, log[7].clone())).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::new(4), false));
    assert_eq!(texts(&store, &id).await, ["secret 0", "secret 1", "secret 2", "secret 3", "secret 7"]);
    assert_eq!(place.run::<u64>(&["LLEN", &key(&id, ":log")]), 5);
}
