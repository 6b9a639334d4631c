//! Erasures leave nothing in the files of the servers, and nothing if they are repeated after an interruption.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use libtest_mimic::Trial;
use redis::{
    Cmd, RedisResult, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
use test_servers::{cluster::Cluster, redis::Server, trials};
use tower_chat_history_core::{
    CompactionVersion, ConversationId, Cursor, Erase, EraseExt, HistoryStore, Labels, LabelsVersion, List, Prefix,
    Removed, StoreError,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{
    Intercept, Intercepted, TestServer, cluster, compact, conversation, key, multiplexed, patient, recall, say, texts,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_secret_is_in_no_file_after_an_erasure,
        a_secret_is_in_no_file_of_a_cluster_after_an_erasure,
        a_server_without_files_needs_no_step,
        what_the_user_may_not_do_is_left_to_the_operator,
        an_interrupted_erasure_is_completed_by_a_repetition,
        damaged_conversations_are_named_and_counted_and_erased,
        a_receipt_has_what_was_erased_beside_a_conversation_that_failed,
    ]
}

const SECRET: &str = "swordfish";

/// Creates conversations that contain the secret in every place.
async fn plant(store: &RedisStore, under: &Prefix, number: usize) {
    for at in 0..number {
        let id: ConversationId = format!("{under}/{at}").parse().unwrap();
        let revision = say(store, &id, SECRET).await.revision;
        recall(store, &id, SECRET, &[0]).await;
        let labels = Labels::new([("title", SECRET)]).unwrap();
        store.set_labels(&id, revision.incarnation(), LabelsVersion::NONE, labels).await.unwrap();
        let compact = compact(CompactionVersion::NONE, 0, Some(SECRET));
        store.compact(&id, revision.incarnation(), compact).await.unwrap();
    }
}

/// Erases everything under the prefix in pages of seven, and returns what was removed.
async fn erase_all(store: &RedisStore, under: &Prefix) -> Result<Removed, StoreError> {
    store.bar(under).await?;
    let mut total = Removed::default();
    let mut after = None::<Cursor>;
    loop {
        let page = store.erase(under, after.as_ref(), 7).await?;
        total += page.removed.total();
        after = page.next;
        if after.is_none() {
            return Ok(total);
        }
    }
}

/// Returns the files under a directory that contain the secret.
fn files_with_secret(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if let Ok(bytes) = fs::read(&path)
                && bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn directory(server: &Server) -> std::path::PathBuf {
    Path::new(server.url().trim_start_matches("unix://")).parent().unwrap().to_owned()
}

async fn a_secret_is_in_no_file_after_an_erasure() {
    let settings = ["--save", "3600 1", "--rdbcompression", "no", "--appendonly", "yes", "--appendfsync", "always"];
    let mut test = TestServer::on(Server::with(&settings)).await;
    let under = "acme/nemo".parse().unwrap();
    let directory = directory(&test.server);
    plant(&test.store, &under, 20).await;
    say(&test.store, &conversation("other"), "other").await;
    test.run::<()>(&["SAVE"]);
    let removed = erase_all(&test.store, &under).await.unwrap();
    assert_eq!((removed.conversations, removed.summaries, removed.labels), (20, 20, 20));
    assert!(test.store.count(&under).await.unwrap().total().is_nothing());
    assert!(files_with_secret(&directory).len() >= 2, "the append-only file and the snapshot still have it");
    let scrubbed = test.store.scrub().await.unwrap();
    assert_eq!(scrubbed.done, ["BGREWRITEAOF", "BGSAVE"]);
    assert_eq!(files_with_secret(&directory), [] as [&str; 0]);
    test.crash_and_restart();
    assert_eq!(texts(&test.store, &conversation("other")).await, ["other"]);
}

async fn a_secret_is_in_no_file_of_a_cluster_after_an_erasure() {
    let mut directories = Vec::new();
    let cluster = Cluster::durable(|socket| {
        directories.push(socket.parent().unwrap().to_owned());
        None
    });
    let store = patient().connect_cluster(cluster.urls()).await.unwrap();
    let under = "acme/nemo".parse().unwrap();
    plant(&store, &under, 20).await;
    assert_eq!(erase_all(&store, &under).await.unwrap().conversations, 20);
    let with_secret = || directories.iter().flat_map(|directory| files_with_secret(directory)).count();
    assert_eq!(with_secret(), 3, "each node has some");
    assert_eq!(store.scrub().await.unwrap().done, ["BGREWRITEAOF"]);
    assert_eq!(with_secret(), 0);
}

async fn a_server_without_files_needs_no_step() {
    let test = TestServer::new().await;
    let cluster = patient().connect_cluster(cluster().urls()).await.unwrap();
    for store in [&test.store, &cluster] {
        let scrubbed = store.scrub().await.unwrap();
        assert_eq!(scrubbed.done, [] as [&str; 0]);
        assert_eq!(scrubbed.left.len(), 2, "{:?}", scrubbed.left);
    }
}

async fn what_the_user_may_not_do_is_left_to_the_operator() {
    let mut test = TestServer::on(Server::durable()).await;
    let expected = [("+@all", 3, true), ("-config", 4, true), ("-bgrewriteaof", 4, false), ("-info", 4, false)];
    for (rights, left, is_done) in expected {
        test.run::<()>(&["ACL", "SETUSER", "app", "on", ">pass", "~*", rights]);
        let url = format!("{}?user=app&pass=pass", test.server.url().replace("unix:", "redis+unix:"));
        let scrubbed = patient().connect(url).await.unwrap().scrub().await.unwrap();
        assert_eq!(scrubbed.left.len(), left, "{rights}: {scrubbed:?}");
        assert_eq!(!scrubbed.done.is_empty(), is_done, "{rights}");
    }
}

/// Ends the connection after some commands.
#[derive(Clone)]
struct Ending {
    left: Arc<AtomicUsize>,
}

impl Intercept for Ending {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let is_left = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if !is_left {
            return std::future::pending().await;
        }
        connection.req_packed_command(command).await
    }
}

/// The client is killed after each number of commands.
async fn an_interrupted_erasure_is_completed_by_a_repetition() {
    let mut test = TestServer::new().await;
    let connection = multiplexed(&test.server).await;
    let under: Prefix = "acme/nemo".parse().unwrap();
    let others = ["acme/nemo-2", "acme/nem", "acme"].map(|id| id.parse::<ConversationId>().unwrap());
    for other in &others {
        say(&test.store, other, "other").await;
    }
    let mut commands = 2;
    let mut was_completed = false;
    while !was_completed {
        for at in 0..10 {
            say(&test.store, &format!("{under}/{at}").parse().unwrap(), "x").await;
        }
        let intercept = Ending { left: Arc::new(AtomicUsize::new(commands)) };
        let store = patient().over(Intercepted { connection: connection.clone(), intercept }).await.unwrap();
        let erasing = erase_all(&store, &under);
        // The connection waits for ever, and the call for nothing else.
        was_completed = tokio::select! {
            biased;
            erased = erasing => erased.is_ok(),
            () = quiet(&test.store) => false,
        };
        erase_all(&test.store, &under).await.unwrap();
        assert!(test.store.count(&under).await.unwrap().total().is_nothing(), "after {commands} commands");
        assert_eq!(test.names(), ["acme", "acme/nem", "acme/nemo-2"], "after {commands} commands");
        commands += 3;
    }
    for other in &others {
        assert_eq!(texts(&test.store, other).await, ["other"]);
    }
    assert!(commands > 50, "{commands}");
}

/// Waits until the server has served some calls after those that were sent before.
async fn quiet(store: &RedisStore) {
    for _ in 0..20 {
        store.describe(&conversation("absent")).await.unwrap();
    }
}

async fn damaged_conversations_are_named_and_counted_and_erased() {
    let mut test = TestServer::new().await;
    let under: Prefix = "acme".parse().unwrap();
    plant(&test.store, &under, 5).await;
    let damaged = ["", ":log"];
    for (at, part) in damaged.into_iter().enumerate() {
        let id: ConversationId = format!("{under}/{at}").parse().unwrap();
        test.run::<()>(&["DEL", &key(&id, part)]);
    }
    let expected = [false, false, true, true, true];
    for limit in 1..7 {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = test.store.list(&under, after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            let damage = page.damaged.iter().all(|damaged| matches!(*damaged.error, StoreError::Corrupt { .. }));
            assert!(damage, "{page:?}");
            after = page.next.clone();
            found.extend(page.into_entries().iter().map(Result::is_ok));
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "{limit} a page");
    }
    let counted = test.store.count(&under).await.unwrap().total();
    assert_eq!((counted.conversations, counted.exchanges, counted.exchange_ids), (5, 8, 10));
    assert_eq!((counted.summaries, counted.labels), (4, 4));
    assert_eq!(erase_all(&test.store, &under).await.unwrap(), counted);
    assert_eq!(test.conversation_keys(), 0);
}

async fn a_receipt_has_what_was_erased_beside_a_conversation_that_failed() {
    let mut test = TestServer::new().await;
    let under: Prefix = "acme".parse().unwrap();
    plant(&test.store, &under, 5).await;
    let fence = key(&"acme/2".parse().unwrap(), ":gone");
    test.run::<()>(&["LPUSH", &fence, "of another kind"]);
    let error = test.store.erase_all(&under).await.unwrap_err();
    assert!(matches!(error.source, StoreError::Backend { .. }), "{error:?}");
    assert_eq!((error.done.removed.total().conversations, test.names()), (4, vec!["acme/2".to_owned()]));
    let again = test.store.erase_all(&under).await.unwrap_err();
    assert!(again.done.removed.total().is_nothing(), "{again:?}");
    test.run::<()>(&["DEL", &fence]);
    let last = test.store.erase_all(&under).await.unwrap();
    assert_eq!((last.removed.total().conversations, last.is_complete()), (1, true));
}
