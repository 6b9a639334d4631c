//! Conversations that the server removes some time after their last append.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{Append, Attach as _, Expect, HistoryStore, Load, Seq, StoreError};

use crate::support::{
    OPTIONAL_PARTS, PARTS, TestServer, attach, attachment, conversation, exchange, key, make, patient, recall, say,
};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        all_keys_expire_at_the_same_time,
        an_append_resets_or_removes_the_expiry,
        an_expired_conversation_is_gone_as_if_deleted,
        attachments_that_come_when_the_time_is_over_damage_nothing,
    ]
}

async fn all_keys_expire_at_the_same_time() {
    let mut test = TestServer::new().await;
    let store = patient().expire_after(HOUR).connect(test.server.url()).await.unwrap();
    let id = conversation("a");
    for n in 0..50 {
        say(&store, &id, "x").await;
        let mut parts = PARTS.to_vec();
        // The store that attaches has no expiry of its own.
        if n == 10 {
            recall(&store, &id, "x", &[]).await;
            make(&store, &id, "x").await;
        }
        if n == 20 {
            attach(&test.store, &id, &[attachment("a", 0, b"x")]).await;
        }
        parts.extend(OPTIONAL_PARTS.iter().take(2 * usize::from(n >= 10) + 2 * usize::from(n >= 20)));
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
    attach(&hour, &id, &[attachment("a", 0, b"x")]).await;
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

/// Sets the time of expiry of all keys in one step, and returns it in milliseconds. If the keys got it one by one, the
/// server could remove some of them before the last one has it.
const EXPIRE: &str = "
    local now = redis.call('TIME')
    local expires_at = now[1] * 1000 + math.floor(now[2] / 1000) + 3
    for _, key in ipairs(KEYS) do
        redis.call('PEXPIREAT', key, string.format('%.0f', expires_at))
    end
    return expires_at
";

/// With each repetition, the attachments come a little later, from 1.5 ms before the expiry to 1.5 ms after it. On a
/// busy machine they may always come too late, so the repetitions begin anew until one was in time.
async fn attachments_that_come_when_the_time_is_over_damage_nothing() {
    let mut test = TestServer::new().await;
    let store = patient().expire_after(HOUR).connect(test.server.url()).await.unwrap();
    let (mut stored, mut gone) = (0, 0);
    for n in 0..30_000_u64 {
        if n >= 300 && stored > 0 && gone > 0 {
            return;
        }
        let id = conversation(&n.to_string());
        let incarnation = say(&store, &id, "x").await.revision.incarnation();
        let keys = PARTS.map(|part| key(&id, part));
        let count = keys.len().to_string();
        let mut words = vec!["EVAL", EXPIRE, &count];
        words.extend(keys.iter().map(String::as_str));
        let expires_at_micros = 1_000 * test.run::<u64>(&words);
        loop {
            let [seconds, micros] = test.run::<[u64; 2]>(&["TIME"]);
            if seconds * 1_000_000 + micros + 1_500 >= expires_at_micros + n % 300 * 10 {
                break;
            }
        }
        match store.attach(&id, incarnation, &[], &[attachment("a", 0, &vec![b'x'; 1 << 16])]).await {
            Ok(_) => stored += 1,
            Err(StoreError::Gone) => gone += 1,
            Err(error) => panic!("{error}"),
        }
        let began = Instant::now();
        while !store.load(&id, Load::new()).await.unwrap().is_absent() {
            assert!(began.elapsed() < Duration::from_secs(30), "it does not expire");
        }
        assert!(store.attachments(&id, &[], usize::MAX).await.unwrap().attachments.is_empty());
    }
    panic!("{stored} {gone}");
}
