//! Recalled messages, which have a key of their own.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    Append, ConversationId, Derived, Expect, HistoryStore, HistoryStoreExt, Load, LoadLimit, Loaded, PruneTo, Recalled,
    Seq,
};

use crate::support::{
    ERASED, RECALLED, TestServer, UNSWEPT, UNSWEPT_END, conversation, exchange, key, recall, recalled_texts, say,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_conversation_without_recalled_messages_has_no_key_for_them,
        a_window_without_recalled_messages_does_not_read_them,
        an_erasure_is_swept_in_steps,
        an_interrupted_erasure_is_completed,
        an_interrupted_erasure_survives_a_truncation,
        nothing_remains_of_erased_recalled_messages,
        large_recalled_messages_end_a_page,
    ]
}

async fn exists(test: &mut TestServer, id: &ConversationId) -> bool {
    test.run(&["EXISTS", &key(id, ":recalled")])
}

async fn a_conversation_without_recalled_messages_has_no_key_for_them() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let store = test.store.clone();
    say(&store, &id, "one").await;
    say(&store, &id, "two").await;
    assert_eq!(test.conversation_keys(), 4);
    recall(&store, &id, "shown", &[0]).await;
    assert!(exists(&mut test, &id).await);
    store.conversation(&id).truncate(Seq::new(2)).await.unwrap();
    assert!(!exists(&mut test, &id).await, "its only exchange was removed");
    recall(&store, &id, "shown", &[0]).await;
    store.conversation(&id).prune(PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert!(!exists(&mut test, &id).await, "it cites a removed exchange");
    assert_eq!(recalled_texts(&store, &id).await, [""]);
    store.delete(&id).await.unwrap();
    assert_eq!(test.conversation_keys(), 0);
}

async fn a_window_without_recalled_messages_does_not_read_them() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    recall(&test.store, &id, "shown", &[]).await;
    for _ in 0..3 {
        say(&test.store, &id, "more").await;
    }
    for (messages, read) in [(6, 0), (8, 1)] {
        let load = Load::new().limit(LoadLimit::new(messages, usize::MAX).unwrap());
        test.store.load(&id, load.clone()).await.unwrap();
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        test.store.load(&id, load).await.unwrap();
        assert_eq!((test.calls("hget"), test.calls("hlen")), (read, 2), "{messages} messages");
    }
}

/// Returns true if the recalled messages at a position cite no removed exchange.
fn stays(seq: u64) -> bool {
    seq % 2 == 1 && seq > 1
}

/// Appends exchanges that alternately cite the first exchange, which is pruned later, and their predecessor.
async fn recalling(test: &TestServer, len: u64) -> ConversationId {
    let id = conversation("long");
    say(&test.store, &id, "first").await;
    for seq in 1..len {
        let (text, cited) = if stays(seq) { ("stays", seq - 1) } else { ("secret", 0) };
        recall(&test.store, &id, &format!("{text} {seq}"), &[cited]).await;
    }
    id
}

async fn an_erasure_is_swept_in_steps() {
    let mut test = TestServer::new().await;
    let id = recalling(&test, 2_500).await;
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    test.store.conversation(&id).prune(PruneTo::From(Seq::new(2)), Derived::Erase).await.unwrap();
    let scripts = test.calls("evalsha") + test.calls("eval");
    // A read of the log, the prune, and three scripts that remove. Three scripts were not cached.
    assert_eq!(scripts, 1 + 1 + 3 + 3);
    let fields: Vec<String> = test.run(&["HKEYS", &key(&id, ":recalled")]);
    assert!(fields.len() == 1_249 && fields.iter().all(|seq| seq.parse::<u64>().unwrap() % 2 == 1), "{}", fields.len());
    assert_eq!(&test.state(&id)[ERASED..UNSWEPT_END + 6], &[0; 18]);
}

/// The state after an erasure whose caller left before anything was swept. It is effective at once.
async fn an_interrupted_erasure_is_completed() {
    let mut test = TestServer::new().await;
    let id = recalling(&test, 200).await;
    let store = test.store.clone();
    test.change_state(&id, &[(ERASED, 1), (UNSWEPT_END, 200)]);
    let expected: Vec<String> =
        (0..200).map(|seq| if stays(seq) { format!("stays {seq}") } else { String::new() }).collect();
    assert_eq!(recalled_texts(&store, &id).await, expected);
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
    assert!(window.exchanges[2].exchange.recalled.is_none() && window.exchanges[3].exchange.recalled.is_some());
    let asked = Load::new().exchange(window.exchanges[2].exchange.id.clone());
    let recorded = store.load(&id, asked).await.unwrap();
    assert!(matches!(&recorded, Loaded::AlreadyRecorded(one) if one.exchange.recalled.is_none()), "{recorded:?}");
    // Later recalled messages are not erased. Each append sweeps a part of the rest.
    recall(&store, &id, "later", &[0]).await;
    assert_eq!(test.run::<u64>(&["HLEN", &key(&id, ":recalled")]), 200 - 32);
    for _ in 0..3 {
        say(&store, &id, "more").await;
    }
    assert_eq!(test.run::<u64>(&["HLEN", &key(&id, ":recalled")]), 100);
    let all = recalled_texts(&store, &id).await;
    assert_eq!((&all[..200], all[200].as_str()), (&expected[..], "later"));
    assert_eq!(&test.state(&id)[ERASED..UNSWEPT_END + 6], &[0; 18]);
}

async fn an_interrupted_erasure_survives_a_truncation() {
    let mut test = TestServer::new().await;
    let id = recalling(&test, 20).await;
    let store = test.store.clone();
    test.change_state(&id, &[(ERASED, 1), (UNSWEPT, 4), (UNSWEPT_END, 20)]);
    store.conversation(&id).truncate(Seq::new(11)).await.unwrap();
    recall(&store, &id, "later", &[0]).await;
    let texts = recalled_texts(&store, &id).await;
    // The positions before 4 count as swept, although this test has not removed anything there.
    assert_eq!((texts[4].as_str(), texts[5].as_str(), texts[10].as_str()), ("", "stays 5", ""));
    assert_eq!((texts[11].as_str(), texts.len()), ("later", 12));
    let held: u64 = test.run(&["HLEN", &key(&id, ":recalled")]);
    assert_eq!(held, u64::from(test.state(&id)[RECALLED + 5]));
}

async fn nothing_remains_of_erased_recalled_messages() {
    let mut test = TestServer::new().await;
    let id = recalling(&test, 30).await;
    test.store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    for keys in test.run::<Vec<String>>(&["KEYS", "*"]) {
        let contents: String = match test.run::<String>(&["TYPE", &keys]).as_str() {
            "hash" => lossy(&test.run::<Vec<_>>(&["HVALS", &keys])),
            "zset" => lossy(&test.run::<Vec<_>>(&["ZRANGE", &keys, "0", "-1"])),
            _ => lossy(&test.run::<Vec<_>>(&["LRANGE", &keys, "0", "-1"])),
        };
        assert!(!contents.contains("secret"), "{keys}");
        assert_eq!(contents.contains("stays"), keys.ends_with(":recalled"), "{keys}");
    }
}

fn lossy(values: &[Vec<u8>]) -> String {
    values.iter().map(|value| String::from_utf8_lossy(value)).collect()
}

async fn large_recalled_messages_end_a_page() {
    let test = TestServer::new().await;
    let id = conversation("large");
    for size in [1_500_000, 1_500_000, 1_500_000, 6_000_000, 100] {
        let mut exchange = exchange("asks");
        exchange.recalled = Some(Recalled::new("x".repeat(size), Vec::new()));
        test.store.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    say(&test.store, &id, "more").await;
    assert_eq!(page_sizes(&test.store, &id, 100).await, [2, 1, 1, 2]);
}
