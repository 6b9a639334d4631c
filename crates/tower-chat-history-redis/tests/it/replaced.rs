//! Connections on which nothing comes any more although nothing breaks, and answers that get lost.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use redis::aio::ConnectionManagerConfig;
use test_servers::trials;
use tokio::time::timeout;
use tower_chat_history_core::{
    Derived, HistoryStore, HistoryStoreExt, Load, Prune, PruneTo, Seq, StoreError, Truncate, Truncated,
};
use tower_chat_history_redis::{OpenError, RedisOptions, RedisStore};

use crate::{
    proxy::Proxy,
    support::{Place, append, conversation, say, texts, window},
};

const KILL: [&str; 6] = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_connection_on_which_no_answer_comes_is_left,
        many_calls_on_a_silent_connection_share_a_new_one,
        no_call_waits_for_a_connection_longer_than_its_time,
        connecting_ends_in_time,
        opening_a_store_ends_in_time_when_the_server_falls_silent,
        a_password_that_was_refused_once_is_tried_again,
        a_truncation_to_nothing_says_what_it_did,
        an_append_that_comes_again_begins_another_life,
        a_deletion_that_comes_again_spares_another_life,
        a_prune_says_how_much_it_removed,
    ]
}

/// A server behind a proxy, and a store that waits for answers for half a second.
async fn place(retry_for: Duration) -> (Place, Proxy, RedisStore) {
    let place = Place::new().await;
    let proxy = Proxy::start(&place.server).await;
    let options = RedisOptions::new().response_timeout(Duration::from_millis(500)).retry_for(retry_for);
    let store = options.connection_timeout(PATIENCE).connect(proxy.url()).await.unwrap();
    (place, proxy, store)
}

async fn a_connection_on_which_no_answer_comes_is_left() {
    let (_place, proxy, store) = place(PATIENCE).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    for n in 1..3 {
        proxy.silence();
        let appended = say(&store, &id, "next").await;
        assert_eq!((appended.seq, appended.duplicate), (Seq::new(n), false));
        assert!(proxy.connections() > n, "one is made for each that is left");
    }
}

async fn many_calls_on_a_silent_connection_share_a_new_one() {
    let (_place, proxy, store) = place(PATIENCE).await;
    let ids: Vec<_> = (0..40).map(|n| conversation(&n.to_string())).collect();
    say(&store, &ids[0], "one").await;
    proxy.silence();
    let calls: Vec<_> = ids
        .into_iter()
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { store.load(&id, Load::new()).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // A machine that is busy may leave a new one too. It does not do so for every call.
    assert!((2..20).contains(&proxy.connections()), "{} connections", proxy.connections());
}

async fn no_call_waits_for_a_connection_longer_than_its_time() {
    let (mut place, proxy, store) = place(Duration::from_millis(200)).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    // The connection ends, and the next one is accepted and never answered.
    proxy.silence_all();
    place.run::<u64>(&KILL);
    for _ in 0..3 {
        let began = Instant::now();
        let error = store.append(&id, append("two")).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        assert!(began.elapsed() < PATIENCE / 3, "{:?}", began.elapsed());
    }
}

async fn connecting_ends_in_time() {
    let place = Place::new().await;
    let proxy = Proxy::start(&place.server).await;
    proxy.silence_all();
    let options = RedisOptions::new().connection_timeout(Duration::from_millis(200)).retry_for(Duration::ZERO);
    assert!(matches!(options.connect(proxy.url()).await, Err(OpenError::Connect { .. })));
    assert!(proxy.connections() <= 2, "{} attempts", proxy.connections());
}

/// The server takes the connection, and never says whether it evicts.
async fn opening_a_store_ends_in_time_when_the_server_falls_silent() {
    let place = Place::new().await;
    let options = RedisOptions::new().connection_timeout(Duration::from_millis(200)).retry_for(Duration::ZERO);
    let options = options.response_timeout(2 * PATIENCE);
    let patient = ConnectionManagerConfig::new().set_response_timeout(None);
    let proxy = Proxy::start(&place.server).await;
    let client = redis::Client::open(proxy.url()).unwrap();
    let given = client.get_connection_manager_with_config(patient).await.unwrap();
    proxy.silence_from("memory");
    let opened = timeout(PATIENCE, options.clone().over(given)).await.unwrap();
    assert!(matches!(opened, Err(OpenError::Connect { .. })));
    let proxy = Proxy::start(&place.server).await;
    proxy.silence_from("memory");
    let opened = timeout(PATIENCE, options.connect(proxy.url())).await.unwrap();
    assert!(matches!(opened, Err(OpenError::Connect { .. })));
}

async fn a_password_that_was_refused_once_is_tried_again() {
    let mut place = Place::new().await;
    place.run::<()>(&["CONFIG", "SET", "requirepass", "one"]);
    let url = format!("{}?pass=one", place.server.url().replace("unix:", "redis+unix:"));
    let store = RedisStore::connect(url).await.unwrap();
    let id = conversation("a");
    say(&store, &id, "one").await;
    place.run::<()>(&["CONFIG", "SET", "requirepass", "two"]);
    place.run::<u64>(&KILL);
    let error = store.append(&id, append("two")).await.unwrap_err();
    let StoreError::Backend { source } = &error else { panic!("{error:?}") };
    assert_eq!(source.to_string(), "the server refused the name or the password of the user");
    place.run::<()>(&["CONFIG", "SET", "requirepass", "one"]);
    let began = Instant::now();
    while let Err(error) = store.append(&id, append("two")).await {
        assert!(began.elapsed() < PATIENCE, "{error:?}");
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_truncation_to_nothing_says_what_it_did() {
    let (place, proxy, store) = place(PATIENCE).await;
    let id = conversation("a");
    for text in ["one", "two", "three"] {
        say(&store, &id, text).await;
    }
    let revision = window(&store, &id).await.revision;
    proxy.lose("emptied");
    let truncated = store.truncate(&id, revision, Seq::FIRST).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(truncated, Truncated::new(None, 3));
    // Somebody else's deletion is told as one.
    let gone = place.store.truncate(&id, revision, Seq::FIRST).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
}

/// What is known of the first life, and what is in flight in it, is not taken for the second.
async fn an_append_that_comes_again_begins_another_life() {
    let (place, proxy, store) = place(PATIENCE).await;
    let id = conversation("a");
    let first = say(&store, &id, "one").await.revision;
    place.store.delete(&id).await.unwrap();
    proxy.repeat(&place.server).await;
    let second = window(&place.store, &id).await.revision;
    assert_eq!((second.version(), second.first()), (first.version(), first.first()));
    assert_ne!(second.incarnation(), first.incarnation());
}

/// What the first try of a deletion left on the way comes when the conversation's next life is acknowledged.
async fn a_deletion_that_comes_again_spares_another_life() {
    let (place, proxy, store) = place(PATIENCE).await;
    let id = conversation("a");
    for life in ["one", "two"] {
        say(&store, &id, life).await;
        store.delete(&id).await.unwrap();
        assert_eq!(say(&place.store, &id, "next").await.seq, Seq::FIRST);
        proxy.repeat(&place.server).await;
        assert_eq!(texts(&place.store, &id).await, ["next"]);
        place.store.delete(&id).await.unwrap();
    }
    // Where there was nothing to delete.
    store.delete(&id).await.unwrap();
    say(&place.store, &id, "next").await;
    proxy.repeat(&place.server).await;
    assert_eq!(texts(&place.store, &id).await, ["next"]);
}

async fn a_prune_says_how_much_it_removed() {
    let (_place, proxy, store) = place(PATIENCE).await;
    let id = conversation("a");
    for n in 0..9 {
        say(&store, &id, &n.to_string()).await;
    }
    for (traces, keep, removed) in [(Derived::Keep, 7, 2), (Derived::Erase, 4, 3), (Derived::Keep, 4, 0)] {
        let incarnation = window(&store, &id).await.revision.incarnation();
        proxy.lose("pruned");
        let pruned = store.prune(&id, incarnation, PruneTo::LastTurns(keep), traces).await.unwrap();
        assert!(proxy.has_lost());
        assert_eq!(pruned.removed, removed);
        assert_eq!(pruned.revision, window(&store, &id).await.revision);
    }
    assert_eq!(store.conversation(&id).keep_last_turns(1).await.unwrap(), 3);
}
