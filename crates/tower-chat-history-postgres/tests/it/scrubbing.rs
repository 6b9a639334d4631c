//! Scrubs: erased data is in no file of the database, and the rest is still there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use libtest_mimic::Trial;
use test_servers::{
    postgres::{self, Durability, Server},
    trials,
};
use tower_chat_history_core::{
    Append, Citation, ConversationId, Erase, Expect, HistoryStore, Labels, LabelsVersion, List, Prefix, Recalled, Seq,
};
use tower_chat_history_postgres::PostgresStore;

use crate::support::{compact_with, connect, exchange, say, single, texts};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_erased_secret_is_in_no_file_after_a_scrub,
        a_scrub_reports_rows_that_an_open_transaction_can_see,
        a_scrub_reports_the_steps_that_its_role_may_not_do,
    ]
}

/// The places of a conversation that have a secret. Each secret has the name of its place.
const PLACES: [&str; 6] = ["id", "message", "large", "recalled", "summary", "label"];

fn secret(place: &str) -> String {
    format!("secret-{place}-4711")
}

/// Returns a text that PostgreSQL stores in another table, without compression.
fn large() -> String {
    let random: String = (0..300_u64).map(|n| format!("{:x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    format!("{random} {}", secret("large"))
}

/// Creates a conversation that has a secret in each of its places.
async fn plant(store: &PostgresStore, id: &ConversationId) {
    let incarnation = say(store, id, &secret("message")).await.revision.incarnation();
    let mut second = exchange(&large());
    second.recalled = Some(Recalled::new(secret("recalled"), vec![Citation::new(Seq::FIRST, 0..1)]));
    store.append(id, Append::new(Expect::AnyIn(incarnation), second)).await.unwrap();
    store.compact(id, incarnation, compact_with(&secret("summary"), 1)).await.unwrap();
    let title = Labels::new([("title", secret("label"))]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, title).await.unwrap();
}

async fn erase(store: &PostgresStore, under: &Prefix) {
    store.bar(under).await.unwrap();
    let mut after = None;
    loop {
        let page = store.erase(under, after.as_ref(), 100).await.unwrap();
        after = page.next;
        if after.is_none() {
            return;
        }
    }
}

/// Returns the secrets that are in files of a directory, apart from another directory in it.
fn found(directory: &Path, except: &str) -> Vec<&'static str> {
    let (mut directories, mut files) = (vec![directory.to_owned()], Vec::<PathBuf>::new());
    while let Some(next) = directories.pop() {
        // PostgreSQL removes files at any time.
        for entry in fs::read_dir(next).into_iter().flatten().filter_map(Result::ok) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != except => directories.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    let places: Vec<_> =
        files.iter().filter_map(|file| fs::read(file).ok()).flat_map(|content| secrets(&content)).collect();
    PLACES.into_iter().filter(|place| places.contains(place)).collect()
}

/// Returns the places of the secrets in a content.
fn secrets(content: &[u8]) -> Vec<&'static str> {
    let starts = content.iter().enumerate().filter(|(_, byte)| **byte == b's').map(|(start, _)| &content[start..]);
    let starts = starts.filter(|rest| rest.starts_with(b"secret-"));
    starts.filter_map(|rest| PLACES.into_iter().find(|place| rest.starts_with(secret(place).as_bytes()))).collect()
}

fn dump(server: &Server, database: &str) -> Vec<u8> {
    let mut program = Command::new(postgres::program("pg_dump"));
    let output = program.arg("-h").arg(server.directory()).args(["-U", "test", database]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

async fn an_erased_secret_is_in_no_file_after_a_scrub() {
    const CONVERSATIONS: usize = 50;
    let server = tokio::task::block_in_place(|| Server::start(Durability::None));
    let url = server.database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    // Only a scrub removes erased rows from the files.
    client.batch_execute("alter system set autovacuum = off").await.unwrap();
    client.batch_execute("select pg_reload_conf()").await.unwrap();
    let kept = ConversationId::new(["acme", "user-43"]).unwrap();
    say(&store, &kept, "kept").await;
    for number in 0..CONVERSATIONS {
        let id = ConversationId::new(["acme", "user-42", &secret("id"), &number.to_string()]).unwrap();
        plant(&store, &id).await;
    }
    client.batch_execute("analyze; checkpoint").await.unwrap();
    // Statistics of texts would have their values, also in a compressed form that the search does not find.
    let values = "select attname::text from pg_stats where schemaname = 'chat_history' \
                  and concat(most_common_vals, histogram_bounds) ~ 'secret|user|\\\\x'";
    let values: Vec<String> = client.query(values, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(values, [""; 0]);
    let data = server.directory().join("data");
    assert_eq!(found(&data, "pg_wal"), PLACES, "the search finds secrets that are stored");
    erase(&store, &"acme/user-42".parse().unwrap()).await;
    let dumped = dump(&server, "test_0");
    assert_eq!(secrets(&dumped), [""; 0], "a dump has only what is stored");
    client.batch_execute("checkpoint").await.unwrap();
    assert_eq!(found(&data, "pg_wal"), PLACES, "removed rows stay in the files");

    let scrubbed = store.scrub().await.unwrap();
    assert_eq!(scrubbed.done.len(), 5, "{scrubbed:?}");
    assert!(scrubbed.left.iter().any(|left| left.contains("write-ahead log")), "{scrubbed:?}");
    assert_eq!(found(&data, "pg_wal"), [""; 0]);
    assert_eq!(texts(&store, &kept).await, ["kept"]);

    // The steps of the guide for the write-ahead log.
    assert_eq!(found(&data.join("pg_wal"), ""), PLACES, "old segments have everything");
    client.batch_execute("alter system set wal_recycle = off").await.unwrap();
    client.batch_execute("select pg_reload_conf()").await.unwrap();
    let is_off = "select 1 from pg_settings where name = 'wal_recycle' and setting = 'off'";
    while client.query(is_off, &[]).await.unwrap().is_empty() {}
    for _ in 0..2 {
        client.batch_execute("select pg_switch_wal()").await.unwrap();
        client.batch_execute("checkpoint").await.unwrap();
    }
    assert_eq!(found(&data, ""), [""; 0]);
}

async fn a_scrub_reports_rows_that_an_open_transaction_can_see() {
    let url = crate::support::database().await;
    let (store, reader) = (single(&url).await, connect(&url).await);
    let id = ConversationId::new(["test", "a"]).unwrap();
    plant(&store, &id).await;
    reader.batch_execute("begin isolation level repeatable read; select 1").await.unwrap();
    erase(&store, &"test".parse().unwrap()).await;
    let partly = store.scrub().await.unwrap();
    assert!(partly.left.iter().any(|left| left.contains("older transaction")), "{partly:?}");
    reader.batch_execute("commit").await.unwrap();
    let whole = store.scrub().await.unwrap();
    assert_eq!((whole.done.len(), whole.left.len() + 1), (5, partly.left.len()), "{whole:?}");
}

async fn a_scrub_reports_the_steps_that_its_role_may_not_do() {
    let url = crate::support::database().await;
    plant(&single(&url).await, &ConversationId::new(["test", "a"]).unwrap()).await;
    connect(&url)
        .await
        .batch_execute(
            "create role scrubbing login; grant usage on schema chat_history to scrubbing; \
             grant select, insert, update, delete on all tables in schema chat_history to scrubbing",
        )
        .await
        .unwrap();
    let store = single(&url.replace("user=test", "user=scrubbing")).await;
    let (under, id) = ("test".parse().unwrap(), ConversationId::new(["test", "a"]).unwrap());
    assert_eq!(store.list(&under, None, 9).await.unwrap().conversations.len(), 1);
    let revision = store.describe(&id).await.unwrap().unwrap().revision;
    assert!(store.erase_if(&id, revision).await.unwrap().is_some());
    erase(&store, &under).await;
    assert!(store.count(&under).await.unwrap().total().is_nothing());
    let scrubbed = store.scrub().await.unwrap();
    assert!(scrubbed.done.is_empty(), "{scrubbed:?}");
    for step in ["conversation", "exchange", "compaction", "erasure", "CHECKPOINT"] {
        assert!(scrubbed.left.iter().any(|left| left.contains(step)), "{step}: {scrubbed:?}");
    }
}
