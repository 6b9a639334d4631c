//! Connections that fail: no call fails if another connection works.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::{join, join_all};
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::sync::watch;
use tokio_postgres::Client;
use tower_chat_history_core::HistoryStore;

use crate::support::{append, connect, conversation, database, patient, say, single, texts, waits_for_a_lock, window};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        no_call_fails_if_an_idle_connection_is_killed,
        calls_survive_connections_that_are_killed,
        newer_connections_are_kept_when_older_ones_are_lost,
        forgotten_statements_are_prepared_again,
    ]
}

/// Ends every other connection to the database, and returns their number.
async fn kill(admin: &Client) -> usize {
    let others = "select pg_terminate_backend(pid) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()";
    admin.query(others, &[]).await.unwrap().len()
}

async fn no_call_fails_if_an_idle_connection_is_killed() {
    let url = database().await;
    let (store, admin) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    assert!(kill(&admin).await > 0);
    assert_eq!(window(&store, &id).await.exchanges.len(), 1);
    assert!(kill(&admin).await > 0);
    assert!(!say(&store, &id, "two").await.duplicate);
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn calls_survive_connections_that_are_killed() {
    const TASKS: usize = 8;
    const TURNS: usize = 40;
    let url = database().await;
    let options = patient().connections(4).retry_for(Duration::from_secs(60));
    let (store, admin) = (options.connect(&url).await.unwrap(), connect(&url).await);
    let id = conversation("a");
    let (said, mut progress) = watch::channel(0);
    let talks = async {
        let talk = async |task| {
            for turn in 0..TURNS {
                say(&store, &id, &format!("{task}/{turn}")).await;
                said.send_modify(|turns| *turns += 1);
                window(&store, &id).await;
            }
        };
        join_all((0..TASKS).map(talk)).await;
        drop(said);
    };
    let killing = async {
        let (mut killed, mut next) = (0, 10);
        while progress.wait_for(|turns| *turns >= next).await.is_ok() {
            killed += kill(&admin).await;
            next += 10;
        }
        killed
    };
    let ((), killed) = join(talks, killing).await;
    assert!(killed > 0);
    let said = texts(&store, &id).await;
    assert_eq!(said.len(), TASKS * TURNS, "no text is lost or stored twice");
    assert_eq!(said.into_iter().collect::<BTreeSet<_>>().len(), TASKS * TURNS);
}

async fn newer_connections_are_kept_when_older_ones_are_lost() {
    let url = database().await;
    let options = patient().connections(3).retry_for(Duration::from_secs(60));
    let (store, admin, watcher) = (options.connect(&url).await.unwrap(), connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    admin.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
    let ends = "select pg_terminate_backend($1)";
    let losing = async {
        let first = waits_for_a_lock(&watcher, &[]).await;
        // The other connections are made during the call.
        let others = [store.pool().get().await.unwrap(), store.pool().get().await.unwrap()];
        let mut made = BTreeSet::new();
        for other in others {
            made.insert(other.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0));
        }
        watcher.query(ends, &[&first]).await.unwrap();
        let second = waits_for_a_lock(&watcher, &[first]).await;
        assert!(made.remove(&second), "the call continues with one of them");
        watcher.query(ends, &[&second]).await.unwrap();
        let third = waits_for_a_lock(&watcher, &[first, second]).await;
        assert!(made.contains(&third), "then it continues with the other one");
        admin.batch_execute("commit").await.unwrap();
    };
    let (appended, ()) = join(store.append(&id, append("two")), losing).await;
    assert!(!appended.unwrap().duplicate);
}

async fn forgotten_statements_are_prepared_again() {
    let url = database().await;
    let store = single(&url).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    store.pool().get().await.unwrap().batch_execute("deallocate all").await.unwrap();
    say(&store, &id, "two").await;
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}
