//! Connections that send a command again by themselves, as those of a cluster do, or that return old answers.

use libtest_mimic::Trial;
use redis::{
    Cmd, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster::ClusterClientBuilder,
};
use test_servers::trials;
use tower_chat_history::CachedStore;
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, ConversationId, Derived, Fork, ForkTo, HistoryStore, HistoryStoreExt, Load,
    Loaded, Prune, PruneTo, Seq, StoreError, Truncate, Truncated,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{
    Intercept, Intercepted, PATIENCE, REGISTERED, TestServer, append, cluster, compact, conversation, intercepted, key,
    multiplexed, patient, recall, recalled_texts, say, shared, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        every_call_may_be_sent_twice,
        every_call_may_be_sent_twice_to_a_cluster,
        a_repeated_append_does_not_find_what_a_prune_left_of_its_compaction,
        an_exchange_lost_in_a_failover_is_not_cached,
        a_deletion_does_not_need_the_clock_of_the_registry,
        a_deletion_ends_even_if_the_conversation_is_created_again_each_time,
        a_deletion_does_not_mistake_a_truncation_for_a_deletion,
        deletions_among_first_turns_and_other_deletions_all_succeed,
    ]
}

async fn every_call_may_be_sent_twice() {
    twice(multiplexed(shared()).await).await;
}

async fn every_call_may_be_sent_twice_to_a_cluster() {
    let client = ClusterClientBuilder::new(cluster().urls()).connection_timeout(PATIENCE).response_timeout(PATIENCE);
    twice(client.build().unwrap().get_async_connection().await.unwrap()).await;
}

/// A failover to a replica that was behind: the newest exchange is lost, and another one has the same
/// revision.
async fn an_exchange_lost_in_a_failover_is_not_cached() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    let replica = CachedStore::new(test.store.clone());
    replica.append(&id, append("one")).await.unwrap();
    assert!(matches!(replica.load(&id, Load::new()).await.unwrap(), Loaded::Window(_)));
    let keys = ["", ":log", ":index", ":ids"].map(|part| (key(&id, part), format!("before:{{a}}{part}")));
    for (key, before) in &keys {
        test.run::<()>(&["COPY", key, before]);
    }
    let lost = replica.append(&id, append("lost")).await.unwrap();
    for (key, before) in &keys {
        test.run::<()>(&["COPY", before, key, "REPLACE"]);
    }
    let other = say(&test.store, &id, "two").await;
    assert_eq!(other.revision, lost.revision);
    assert_eq!(replica.load(&id, Load::new()).await.unwrap(), test.store.load(&id, Load::new()).await.unwrap());
}

/// Sends each command twice, as if the first answer was lost.
#[derive(Clone)]
struct Twice;

impl<C: ConnectionLike + Send> Intercept<C> for Twice {
    async fn send(&mut self, connection: &mut C, command: &Cmd) -> RedisResult<Value> {
        connection.req_packed_command(command).await?;
        connection.req_packed_command(command).await
    }
}

async fn twice<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: C) {
    let store = patient().over(Intercepted { connection, intercept: Twice }).await.unwrap();
    let id = conversation("twice");
    for n in 0..9 {
        let appended = say(&store, &id, &n.to_string()).await;
        assert_eq!((appended.seq, appended.duplicate), (Seq::new(n), false));
    }
    let incarnation = window(&store, &id).await.revision.incarnation();
    let compact = compact(CompactionVersion::NONE, 1, None);
    let stored = store.compact(&id, incarnation, compact).await.unwrap();
    assert!(matches!(stored, CompactOutcome::Stored(_)), "{stored:?}");
    assert_eq!(store.prune(&id, incarnation, PruneTo::LastTurns(7), Derived::Keep).await.unwrap().removed, 2);
    assert_eq!(store.prune(&id, incarnation, PruneTo::LastTurns(4), Derived::Erase).await.unwrap().removed, 3);
    assert_eq!(store.conversation(&id).truncate(Seq::new(8)).await.unwrap().removed, 1);

    let incarnation = window(&store, &id).await.revision.incarnation();
    let copy = conversation("twice forked");
    let to = ForkTo::new(copy.clone(), Seq::new(7));
    assert_eq!(store.fork(&id, incarnation, to.clone()).await.unwrap().copied, 2);
    assert_eq!(texts(&store, &copy).await, ["5", "6"]);
    assert_eq!(store.fork(&id, incarnation, to).await.unwrap().copied, 2, "the call is repeated");

    recall(&store, &id, "shown", &[7]).await;
    assert_eq!(recalled_texts(&store, &id).await, ["", "", "", "shown"]);
    assert_eq!(store.conversation(&id).truncate(Seq::new(8)).await.unwrap().removed, 1);

    let revision = window(&store, &id).await.revision;
    let truncated = store.truncate(&id, revision, revision.first(), None).await.unwrap();
    assert_eq!(truncated, Truncated::new(None, 3));
    let gone = store.truncate(&id, revision, revision.first(), None).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
    say(&store, &id, "anew").await;
    store.delete(&id).await.unwrap();
    assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
}

/// Sends an append twice, as if the first answer was lost. In between, the log is pruned, and derived data erased.
#[derive(Clone)]
struct Pruning {
    other: RedisStore,
    id: ConversationId,
}

impl Intercept for Pruning {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let answer = connection.req_packed_command(command).await?;
        if !command.get_packed_command().windows(10).any(|part| part == b"sent twice") {
            return Ok(answer);
        }
        self.other.conversation(&self.id).prune(PruneTo::LastTurns(2), Derived::Erase).await.unwrap();
        connection.req_packed_command(command).await
    }
}

/// The caller would otherwise take the compaction for the one that it stored, with its derived text.
async fn a_repeated_append_does_not_find_what_a_prune_left_of_its_compaction() {
    let test = TestServer::new().await;
    let id = conversation("a");
    for text in ["one", "two"] {
        say(&test.store, &id, text).await;
    }
    let store = intercepted(&test.server, Pruning { other: test.store.clone(), id: id.clone() }).await;

    let compact = compact(CompactionVersion::NONE, 2, Some("a summary"));
    let appended = store.append(&id, append("sent twice").compact(compact)).await.unwrap();
    let left = window(&test.store, &id).await.compaction.unwrap();
    assert_eq!((left.version, left.window_start, &left.derived), (CompactionVersion::new(2), Seq::new(1), &None));
    assert_eq!((appended.seq, appended.compaction), (Seq::new(2), Some(CompactOutcome::Kept(Some(left)))));
}

/// The clock of the registry is lost with its keys, and the clock of the server is behind.
async fn a_deletion_does_not_need_the_clock_of_the_registry() {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for lost in [false, true] {
        say(&test.store, &id, "one").await;
        let mut state = test.state(&id);
        // The second byte of a stamp is 6.
        state[REGISTERED + 1] = 15;
        test.set_state(&id, &state);
        if lost {
            let keys: Vec<String> = test.run(&["KEYS", "chat:{!*"]);
            for key in keys {
                test.run::<()>(&["DEL", &key]);
            }
        }
        test.store.delete(&id).await.unwrap();
        assert_eq!(test.conversation_keys(), 0);
        test.run::<()>(&["FLUSHALL"]);
    }
}

/// Changes the conversation before each script, so that everything that the store has read is out of date.
#[derive(Clone)]
struct Overtaken {
    other: RedisStore,
    id: ConversationId,
    /// If true, the conversation is deleted and created again. Otherwise its end is truncated, if there is one, and
    /// another exchange is appended.
    begins: bool,
}

impl Overtaken {
    async fn change(&self) {
        if self.begins {
            self.other.delete(&self.id).await.unwrap();
        } else if let Some(last) = self.other.read(&self.id, Seq::FIRST, 1).await.unwrap().revision {
            self.other.truncate(&self.id, last, Seq::new(last.version() - 1), None).await.unwrap();
        }
        say(&self.other, &self.id, "again").await;
    }
}

impl Intercept for Overtaken {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        if command.get_packed_command().windows(4).any(|part| part == b"EVAL") {
            self.change().await;
        }
        connection.req_packed_command(command).await
    }
}

/// Deletes a conversation that is changed all the time. Returns the texts that are left.
async fn delete_overtaken(begins: bool) -> (TestServer, Vec<String>) {
    let mut test = TestServer::new().await;
    let id = conversation("a");
    for text in ["one", "two"] {
        say(&test.store, &id, text).await;
    }
    let overtaken = Overtaken { other: test.store.clone(), id: id.clone(), begins };
    intercepted(&test.server, overtaken).await.delete(&id).await.unwrap();
    assert_eq!(test.names(), [id.as_str()], "the present conversation is registered");
    let left = texts(&test.store, &id).await;
    (test, left)
}

async fn a_deletion_ends_even_if_the_conversation_is_created_again_each_time() {
    assert_eq!(delete_overtaken(true).await.1, ["again"], "the conversation that was created last");
}

/// The log that remains after a truncation existed before the deletion.
async fn a_deletion_does_not_mistake_a_truncation_for_a_deletion() {
    assert_eq!(delete_overtaken(false).await.1, ["again"], "an exchange that was appended after the deletion");
}

async fn deletions_among_first_turns_and_other_deletions_all_succeed() {
    const TASKS: usize = 8;
    const ROUNDS: usize = 25;
    let test = TestServer::new().await;
    let id = conversation("a");
    let churning: Vec<_> = (0..TASKS)
        .map(|_| {
            let url = test.server.url();
            let id = id.clone();
            tokio::spawn(async move {
                let store = patient().connect(url).await.unwrap();
                for _ in 0..ROUNDS {
                    say(&store, &id, "again").await;
                    store.delete(&id).await.unwrap();
                }
            })
        })
        .collect();
    for churned in churning {
        churned.await.unwrap();
    }
    let loaded = test.store.load(&id, Load::new()).await.unwrap();
    assert!(loaded.is_absent(), "each task ends with a deletion");
}
