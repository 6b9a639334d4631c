//! Servers whose memory is full, and conversations that the server removes some time after their last append.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, CompactionVersion, Derived, Expect, Fork, ForkTo, HistoryStore, HistoryStoreExt, Load, PruneTo, Seq,
    StoreError,
};
use tower_chat_history_redis::OpenError;

use crate::support::{
    OPTIONAL_PARTS, PARTS, TestServer, append, compact, conversation, exchange, key, make, patient, recall, say, texts,
};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_full_server_stores_nothing_and_loses_nothing,
        room_can_be_made_on_a_full_server,
        a_server_that_evicts_is_refused_by_option,
        all_keys_expire_at_the_same_time,
        an_append_resets_or_removes_the_expiry,
        an_expired_conversation_is_gone_as_if_deleted,
    ]
}

async fn a_full_server_stores_nothing_and_loses_nothing() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let first = say(&test.store, &id, "one").await;
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let compact = compact(CompactionVersion::NONE, 0, Some("s"));
    for error in [
        test.store.append(&id, append("two")).await.unwrap_err(),
        test.store.append(&conversation("new"), append("one")).await.unwrap_err(),
        test.store.append(&id, append("three").compact(compact.clone())).await.unwrap_err(),
        test.store.compact(&id, first.revision.incarnation(), compact).await.unwrap_err(),
        test.store
            .fork(&id, first.revision.incarnation(), ForkTo::new(conversation("copy"), Seq::new(9)))
            .await
            .unwrap_err(),
    ] {
        let reported = matches!(error, StoreError::Full { used, requested, limit: 1 } if used > 1 && requested > 0);
        assert!(reported, "{error:?}");
    }
    assert_eq!(texts(&test.store, &id).await, ["one"]);
    assert_eq!(test.conversation_keys(), 4);
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(say(&test.store, &id, "two").await.seq, Seq::new(1));
}

async fn room_can_be_made_on_a_full_server() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for n in 0..10 {
        say(&test.store, &id, &n.to_string()).await;
    }
    let other = conversation("b");
    say(&test.store, &other, "one").await;
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let store = test.store.clone();
    assert_eq!(store.conversation(&other).truncate(Seq::FIRST).await.unwrap().removed, 1);
    assert_eq!(store.conversation(&id).keep_last_turns(8).await.unwrap(), 2);
    assert_eq!(store.conversation(&id).prune(PruneTo::LastTurns(6), Derived::Erase).await.unwrap().unwrap().removed, 2);
    assert_eq!(store.conversation(&id).truncate(Seq::new(6)).await.unwrap().removed, 4);
    assert_eq!(texts(&store, &id).await, ["4", "5"]);
    store.delete(&id).await.unwrap();
    assert_eq!(test.conversation_keys(), 0);
}

async fn a_server_that_evicts_is_refused_by_option() {
    let mut test = TestServer::new().await;
    let requiring = patient().require_noeviction(true);
    requiring.clone().connect(test.server.url()).await.unwrap();
    test.run::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let refused = requiring.connect(test.server.url()).await.unwrap_err();
    assert!(matches!(&refused, OpenError::Evicts { policy } if policy == "allkeys-lru"), "{refused}");
    patient().connect(test.server.url()).await.unwrap();
}

async fn all_keys_expire_at_the_same_time() {
    let mut test = TestServer::new().await;
    let store = patient().expire_after(HOUR).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    for n in 0..50 {
        say(&store, &id, "x").await;
        let mut parts = PARTS.to_vec();
        if n == 10 {
            recall(&store, &id, "x", &[]).await;
            make(&store, &id, "x").await;
        }
        if n >= 10 {
            parts.extend(OPTIONAL_PARTS);
        }
        let moments: Vec<_> = parts.iter().map(|part| test.run::<i64>(&["PEXPIRETIME", &key(&id, part)])).collect();
        assert!(moments[0] > 0 && moments.iter().all(|moment| *moment == moments[0]), "{moments:?}");
    }
    let left = test.run::<i64>(&["PTTL", &key(&id, "")]);
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
}

async fn an_append_resets_or_removes_the_expiry() {
    let mut test = TestServer::new().await;
    let hour = patient().expire_after(HOUR).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    recall(&hour, &id, "x", &[]).await;
    make(&hour, &id, "x").await;
    let parts = [&PARTS[..], &OPTIONAL_PARTS].concat();
    for part in &parts {
        test.run::<()>(&["EXPIRE", &key(&id, part), "100"]);
    }
    say(&hour, &id, "x").await;
    for part in &parts {
        assert!(test.run::<i64>(&["TTL", &key(&id, part)]) > 3_500, "{part}");
    }
    for _ in 0..2 {
        say(&test.store.clone(), &id, "x").await;
        for part in &parts {
            assert_eq!(test.run::<i64>(&["TTL", &key(&id, part)]), -1, "it never expires");
        }
    }
}

async fn an_expired_conversation_is_gone_as_if_deleted() {
    let test = TestServer::new().await;
    let store = patient().expire_after(Duration::from_millis(1)).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    let last = say(&store, &id, "x").await.revision;
    let began = Instant::now();
    while !store.load(&id, Load::new()).await.unwrap().is_absent() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not expire");
    }
    for expect in [Expect::AnyIn(last.incarnation()), Expect::Exactly(last)] {
        let late = store.append(&id, Append::new(expect, exchange("late"))).await;
        assert!(matches!(late, Err(StoreError::Gone)), "{late:?}");
    }
    let anew = say(&test.store, &id, "anew").await;
    assert_eq!(anew.seq, Seq::FIRST);
    assert_ne!(anew.revision.incarnation(), last.incarnation());
}
