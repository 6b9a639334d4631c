//! Conversations that the server removes some time after their last append.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{Append, Expect, HistoryStore, Load, Seq, StoreError};

use crate::support::{OPTIONAL_PARTS, PARTS, TestServer, conversation, exchange, key, make, patient, recall, say};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        all_keys_expire_at_the_same_time,
        an_append_resets_or_removes_the_expiry,
        an_expired_conversation_is_gone_as_if_deleted,
    ]
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
    let parts = || PARTS.into_iter().chain(OPTIONAL_PARTS);
    for part in parts() {
        test.run::<()>(&["EXPIRE", &key(&id, part), "100"]);
    }
    say(&hour, &id, "x").await;
    for part in parts() {
        assert!(test.run::<i64>(&["TTL", &key(&id, part)]) > 3_500, "{part}");
    }
    for _ in 0..2 {
        say(&test.store.clone(), &id, "x").await;
        for part in parts() {
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
