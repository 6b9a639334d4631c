//! Erased text is in no file of the database after a scrub.

use std::time::Duration;

use tower_chat_history_conformance::shorthand::log_texts;
use tower_chat_history_core::{
    Append, Citation, CompactionVersion, ConversationId, Cut, Digest, Erase, Exchange, ExchangeId, Expect,
    HistoryStore, HistoryStoreExt, Labels, LabelsVersion, List, Message, Origin, Prefix, PromptDigests, Provenance,
    Recalled, Seq,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Synchronous};

use crate::support::{TestDatabase, compact, say};

/// A text that occurs nowhere else. An id may consist of it.
const SECRET: &str = "pharaoh-Ramesses-4711";

/// The number of exchanges of the longest conversation.
const TURNS: usize = 6;

/// Appends an exchange that has the secret in all of its parts. Also stores a summary and labels with it.
async fn plant(store: &SqliteStore, id: &ConversationId, number: usize, turn: usize) {
    let text = |times: usize| format!("{SECRET} {number} ").repeat(1 + times);
    let name = ExchangeId::new(format!("{SECRET}-{turn}")).unwrap();
    let mut exchange = Exchange::new(name, [Message::user(text(number % 90)), Message::assistant(text(turn * 70))]);
    exchange.recalled = Some(Recalled::new(text(1), vec![Citation::new(Seq::FIRST, 0..1)])).filter(|_| turn > 0);
    let origin = Origin::unknown().provider(SECRET);
    let cut = Cut::window_from(Seq::FIRST).positions;
    let digests = PromptDigests::new(Digest::of(b"a"), Digest::of(b"b"));
    exchange.provenance = Some(Provenance::new(1, cut, digests, origin));
    let appended = store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    let incarnation = appended.revision.incarnation();
    let mut compact = compact(SECRET, 0, Some(&text(5)));
    compact.replaces = CompactionVersion::new(turn as u64);
    store.compact(id, incarnation, compact).await.unwrap();
    let labels = Labels::new([(SECRET, SECRET.repeat(1 + turn))]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::new(turn as u64), labels).await.unwrap();
}

/// Creates conversations with a secret under a prefix that has it too, and others between them. All of them grow at the
/// same time, so their rows move between pages.
async fn planted(database: &TestDatabase, conversations: usize) -> (SqliteStore, Prefix) {
    let options = SqliteOptions::new().synchronous(Synchronous::Normal).busy_timeout(Duration::from_millis(20));
    let store = options.open(&database.path).await.unwrap();
    for turn in 0..TURNS {
        for number in (0..conversations).filter(|number| number % TURNS >= turn) {
            let id = ConversationId::new(["acme", SECRET, &format!("{SECRET}-{number}")]).unwrap();
            plant(&store, &id, number, turn).await;
            let other = ConversationId::new(["acme", &format!("{}", number % 40)]).unwrap();
            say(&store, &other, &"kept ".repeat(number * 7 % 300)).await;
        }
    }
    (store, Prefix::new(["acme", SECRET]).unwrap())
}

async fn erase(store: &SqliteStore, under: &Prefix) {
    store.bar(under).await.unwrap();
    let mut after = None;
    loop {
        after = store.erase(under, after.as_ref(), 100).await.unwrap().next;
        if after.is_none() {
            break;
        }
    }
    assert!(store.count(under).await.unwrap().total().is_nothing());
}

#[tokio::test]
async fn an_erased_secret_is_in_no_file_after_a_scrub() {
    let database = TestDatabase::new();
    let (store, under) = planted(&database, 300).await;
    let id = ConversationId::new(["acme", "7"]).unwrap();
    let (log, entry) = (log_texts(&store, &id).await, store.describe(&id).await.unwrap());
    assert!(database.contains(SECRET));
    erase(&store, &under).await;
    let scrubbed = store.scrub().await.unwrap();
    assert!(!database.contains(SECRET));
    assert!(scrubbed.done.iter().any(|step| step.contains("VACUUM")) && !scrubbed.left.is_empty(), "{scrubbed:?}");
    assert_eq!((log_texts(&store, &id).await, store.describe(&id).await.unwrap()), (log, entry));
    // The store goes on, and a second scrub has nothing to do.
    say(&store, &id, "and on").await;
    store.scrub().await.unwrap();
    store.close().await.unwrap();
    let store = database.open().await;
    assert_eq!(log_texts(&store, &id).await.last().unwrap(), "and on");
    assert!(!database.contains(SECRET));
}

#[tokio::test]
async fn a_copy_of_a_secret_is_erased_like_its_original() {
    let database = TestDatabase::new();
    let (store, under) = planted(&database, 20).await;
    let id = ConversationId::new(["acme", SECRET, &format!("{SECRET}-17")]).unwrap();
    let copy = ConversationId::new(["acme", "copy"]).unwrap();
    assert!(store.conversation(&id).fork(Seq::new(4), &copy).await.unwrap() > 0);
    erase(&store, &under).await;
    store.scrub().await.unwrap();
    assert!(database.contains(SECRET), "the copy is a conversation of its own");
    store.delete(&copy).await.unwrap();
    store.scrub().await.unwrap();
    assert!(!database.contains(SECRET));
}

#[tokio::test]
async fn a_scrub_fails_while_another_process_reads_what_was_erased() {
    let database = TestDatabase::new();
    let (store, under) = planted(&database, 6).await;
    let other = database.connect();
    other.execute_batch("BEGIN").unwrap();
    let count = |sql: &str| other.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let before = count("SELECT count(*) FROM exchange");
    erase(&store, &under).await;
    let error = store.scrub().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.is_retryable() && cause.contains("another process"), "{error:?} {cause}");
    assert_eq!(count("SELECT count(*) FROM exchange"), before, "the other process was not disturbed");
    other.execute_batch("COMMIT").unwrap();
    store.scrub().await.unwrap();
    drop(other);
    assert!(!database.contains(SECRET));
}

#[tokio::test]
async fn writes_that_arrive_during_a_scrub_are_stored_after_it() {
    let database = TestDatabase::new();
    let (store, under) = planted(&database, 20).await;
    erase(&store, &under).await;
    let id = ConversationId::new(["acme", "during"]).unwrap();
    let (scrubbed, appended) = tokio::join!(store.scrub(), say(&store, &id, "x"));
    scrubbed.unwrap();
    assert_eq!(appended.seq, Seq::FIRST);
    assert_eq!(log_texts(&store, &id).await, ["x"]);
}
