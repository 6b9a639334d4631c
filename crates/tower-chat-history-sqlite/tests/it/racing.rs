//! Several stores on one file, in one process and in several.

use std::{collections::BTreeSet, env};

use tower_chat_history_core::{
    Append, ConversationId, Expect, HistoryStore, HistoryStoreExt, Load, Loaded, StoreError,
};
use tower_chat_history_sqlite::SqliteStore;

use crate::support::{TestDatabase, append, assert_one_test_passed, child_test, conversation, exchange, patient, say};

const APPENDS: usize = 25;
const RACERS: usize = 6;

/// Appends to one conversation, as each racer does.
async fn race(store: &SqliteStore, id: &ConversationId, name: &str) {
    for turn in 0..APPENDS {
        say(store, id, &format!("{name}-{turn}")).await;
    }
}

/// Checks that each text is stored once, and that the texts of each racer are in order.
async fn assert_complete(store: &SqliteStore, id: &ConversationId, names: &[String]) {
    let log = store.conversation(id).exchanges().await.unwrap();
    assert_eq!(log.len(), names.len() * APPENDS);
    let texts: Vec<_> = log.iter().map(|recorded| recorded.exchange.messages[0].text().into_owned()).collect();
    for name in names {
        let prefix = format!("{name}-");
        let stored: Vec<_> = texts.iter().filter(|text| text.starts_with(&prefix)).cloned().collect();
        let expected: Vec<_> = (0..APPENDS).map(|turn| format!("{prefix}{turn}")).collect();
        assert_eq!(stored, expected);
    }
    assert!(log.iter().enumerate().all(|(index, recorded)| recorded.seq.get() == index as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_on_one_new_file_do_not_lose_or_mix_appends() {
    let database = TestDatabase::new();
    let id = conversation("shared");
    let names: Vec<_> = (0..RACERS).map(|n| format!("racer{n}")).collect();
    let mut tasks = Vec::new();
    for name in names.clone() {
        let (path, id) = (database.path.clone(), id.clone());
        tasks.push(tokio::spawn(async move {
            let store = patient().open(path).await.unwrap();
            race(&store, &id, &name).await;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_complete(&database.open().await, &id, &names).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_of_two_stores_wins_a_revision() {
    let database = TestDatabase::new();
    let (a, b) = (database.open().await, database.open().await);
    let id = conversation("shared");
    let mut revision = say(&a, &id, "x").await.revision;
    for _ in 0..50 {
        let expect = Expect::Exactly(revision);
        let (one, other) = tokio::join!(
            a.append(&id, Append::new(expect, exchange("a"))),
            b.append(&id, Append::new(expect, exchange("b")))
        );
        let (won, lost) = if one.is_ok() { (one, other) } else { (other, one) };
        revision = won.unwrap().revision;
        assert!(matches!(lost, Err(StoreError::Conflict { current: Some(current) }) if current == revision));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_exchange_id_is_stored_once() {
    let database = TestDatabase::new();
    let (a, b) = (database.open().await, database.open().await);
    let id = conversation("shared");
    for _ in 0..20 {
        let same = append("once");
        let (one, other) = tokio::join!(a.append(&id, same.clone()), b.append(&id, same));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!((one.seq, one.duplicate), (other.seq, !other.duplicate));
    }
    let log = a.conversation(&id).exchanges().await.unwrap();
    let ids: BTreeSet<_> = log.iter().map(|recorded| recorded.exchange.id.clone()).collect();
    assert_eq!((log.len(), ids.len()), (20, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_sees_one_state() {
    let database = TestDatabase::new();
    let (a, b) = (database.open().await, database.open().await);
    let id = conversation("shared");
    let writer = tokio::spawn({
        let id = id.clone();
        async move {
            for _ in 0..300 {
                for _ in 0..3 {
                    say(&b, &id, "x").await;
                }
                b.delete(&id).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        match a.load(&id, Load::new()).await.unwrap() {
            Loaded::Window(window) => assert_eq!(window.exchanges.len() as u64, window.revision.version()),
            other => assert!(other.is_absent()),
        }
    }
    writer.await.unwrap();
}

/// The environment variable with the racer's name and the path of the file, for the processes that the test starts.
const RACE: &str = "CHAT_HISTORY_RACE";

#[tokio::test]
async fn processes_on_one_new_file_do_not_lose_or_mix_appends() {
    let id = conversation("shared");
    if let Ok(role) = env::var(RACE) {
        let (name, path) = role.split_once(' ').unwrap();
        let store = patient().open(path).await.unwrap();
        race(&store, &id, name).await;
        return;
    }
    let database = TestDatabase::new();
    let names: Vec<_> = (0..RACERS).map(|n| format!("racer{n}")).collect();
    let processes: Vec<_> = names
        .iter()
        .map(|name| {
            let test = "racing::processes_on_one_new_file_do_not_lose_or_mix_appends";
            let mut child = child_test(env::current_exe().unwrap(), test);
            child.env(RACE, format!("{name} {}", database.path.display())).spawn().unwrap()
        })
        .collect();
    processes.into_iter().for_each(assert_one_test_passed);
    assert_complete(&database.open().await, &id, &names).await;
}
