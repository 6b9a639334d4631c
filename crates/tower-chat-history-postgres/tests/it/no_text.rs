//! Errors name what failed, and never quote text of a conversation.

use std::{error::Error, sync::Mutex};

use libtest_mimic::Trial;
use log::{LevelFilter, Log, Metadata, Record};
use test_servers::trials;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, ConversationId, Expect, HistoryStore, Load, LoadLimit, Loaded, Seq,
    StoreError,
};
use tower_chat_history_postgres::{OpenError, PostgresStore};

use crate::support::{
    append, compact, compact_with, connect, conversation, database, exchange, patient, say, single, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        no_text_is_in_an_error_of_the_database,
        no_text_is_logged_by_the_driver,
        the_error_of_a_damaged_record_names_it_without_its_text,
        a_damaged_compaction_is_reported_and_prevents_no_append,
        a_compaction_that_the_database_refuses_prevents_no_append,
        exchanges_outside_the_window_are_not_read,
        no_password_is_in_an_error,
    ]
}

/// Returns everything that an error shows: each message of its chain, and its `Debug` output.
pub(crate) fn shown(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text += &format!("\n{error}\n{error:?}");
        next = error.source();
    }
    text
}

async fn no_text_is_in_an_error_of_the_database() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "harmless").await;
    // PostgreSQL quotes the whole row in its message about a violated constraint.
    let check = "alter table chat_history.exchange add constraint no_secrets check (body not like '%secret%')";
    client.batch_execute(check).await.unwrap();
    let error = store.append(&id, append("a secret")).await.unwrap_err();
    assert!(matches!(error, StoreError::Backend { .. }), "{error:?}");
    let shown = shown(&error);
    assert!(shown.contains("23514") && shown.contains("no_secrets"), "{shown}");
    assert!(!shown.contains("a secret"), "{shown}");
    client.batch_execute("drop table chat_history.exchange").await.unwrap();
    let error = store.append(&id, append("a secret")).await.unwrap_err();
    assert!(!self::shown(&error).contains("a secret"), "{error:?}");
}

/// Collects what is logged with the crate `log`, which the driver uses.
struct Logged(Mutex<Vec<String>>);

static LOGGED: Logged = Logged(Mutex::new(Vec::new()));

impl Log for Logged {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

async fn no_text_is_logged_by_the_driver() {
    log::set_logger(&LOGGED).unwrap();
    log::set_max_level(LevelFilter::Trace);
    let url = database().await;
    for prepare in [true, false] {
        let store = patient().prepare(prepare).connect(&url).await.unwrap();
        let id = ConversationId::new(["hidden-key", "a"]).unwrap();
        say(&store, &id, "a hidden text").await;
        store.load(&id, Load::new()).await.unwrap();
    }
    log::set_max_level(LevelFilter::Off);
    let logged = LOGGED.0.lock().unwrap().join("\n");
    assert!(logged.contains("append_1"), "the driver logs statements");
    assert!(!logged.contains("hidden"), "{logged}");
}

async fn the_error_of_a_damaged_record_names_it_without_its_text() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let (id, other) = (conversation("a"), conversation("b"));
    say(&store, &id, "a secret").await;
    say(&store, &other, "whole").await;
    let damage = "update chat_history.exchange set body = left(body, 100) where body like '%secret%'";
    client.batch_execute(damage).await.unwrap();
    let error = store.load(&id, Load::new()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { seq, .. } if seq.get() == 0), "{error:?}");
    assert!(!shown(&error).contains("a secret"), "{error:?}");
    store.load(&other, Load::new()).await.unwrap();
}

async fn a_damaged_compaction_is_reported_and_prevents_no_append() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    for text in ["one", "two"] {
        say(&store, &id, text).await;
    }
    let incarnation = window(&store, &id).await.revision.incarnation();
    let whole = store.compact(&id, incarnation, compact_with("secret", 1)).await.unwrap();
    let CompactOutcome::Stored(mut version) = whole else { panic!("{whole:?}") };
    let mut expected = vec!["one".to_owned(), "two".to_owned()];
    for window_start in [99, i64::MAX, -1, i64::MIN] {
        let damage = format!("update chat_history.compaction set window_start = {window_start}, state = 'secret'");
        client.batch_execute(&damage).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{window_start}: {error:?}");
        assert!(!shown(&error).contains("secret"), "{error:?}");
        // The exchange was paid for, so it is stored whatever the state of the stored compaction.
        let stale = append("stale").compact(compact(CompactionVersion::new(77), 1));
        let appended = store.append(&id, stale).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{window_start}");
        // A compaction that replaces the damaged one repairs it.
        let appended = store.append(&id, append("next").compact(compact(version, 1))).await.unwrap();
        version = version.next();
        assert_eq!(appended.compaction, Some(CompactOutcome::Stored(version)), "{window_start}");
        assert_eq!(window(&store, &id).await.compaction.unwrap().version, version);
        expected.extend(["stale".to_owned(), "next".to_owned()]);
    }
    assert_eq!(texts(&store, &id).await, expected);
}

/// If the database refuses a compaction, the exchange is stored nevertheless.
async fn a_compaction_that_the_database_refuses_prevents_no_append() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    let check = "alter table chat_history.compaction add constraint no_secrets \
                 check (position('secret'::bytea in derived) = 0)";
    client.batch_execute(check).await.unwrap();
    let secret = compact_with("secret", 0);
    let exchange = append("two").compact(secret.clone());
    let appended = store.append(&id, exchange.clone()).await.unwrap();
    assert_eq!((appended.duplicate, appended.compaction), (false, Some(CompactOutcome::Kept(None))));
    assert!(store.append(&id, exchange).await.unwrap().duplicate);
    let refused = store.compact(&id, incarnation, secret.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }) && shown(&refused).contains("no_secrets"), "{refused:?}");
    // An error of the exchange itself is reported.
    let check = "alter table chat_history.exchange add constraint no_third check (body not like '%three%')";
    client.batch_execute(check).await.unwrap();
    let refused = store.append(&id, append("three").compact(secret)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Backend { .. }), "{refused:?}");
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn exchanges_outside_the_window_are_not_read() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "0").await;
    let incarnation = say(&store, &id, "1").await.revision.incarnation();
    for position in [1, 2] {
        let continues = exchange("x").continuing(Seq::new(position));
        store.append(&id, Append::new(Expect::AnyIn(incarnation), continues)).await.unwrap();
    }
    say(&store, &id, "4").await;
    // The limit includes 2 to 4, but 2 and 3 belong to the turn that 1 opens.
    client.batch_execute("update chat_history.exchange set body = '' where seq in (2, 3)").await.unwrap();
    let load = Load::new().limit(LoadLimit::new(6, usize::MAX).unwrap());
    let Loaded::Window(window) = store.load(&id, load).await.unwrap() else { unreachable!() };
    assert_eq!((window.exchanges.len(), window.exchanges[0].seq, window.truncated), (1, Seq::new(4), true));
}

async fn no_password_is_in_an_error() {
    for url in ["postgres://user:hunter2@/x?host=%2Fnot%2Fthere", "postgres://user:hunter2@h:port/x", "hunter2"] {
        let error: OpenError = PostgresStore::connect(url).await.unwrap_err();
        assert!(!shown(&error).contains("hunter2"), "{error:?}");
    }
}
