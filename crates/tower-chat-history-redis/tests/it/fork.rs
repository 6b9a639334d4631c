//! Copies of a log: the keys of a single server are copied in one script, and those of a Cluster are staged.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use libtest_mimic::Trial;
use redis::{
    Cmd, ErrorKind, RedisResult, ServerErrorKind, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
use test_servers::trials;
use tokio::sync::Notify;
use tower_chat_history_core::{
    Append, Citation, ConversationId, Derived, Erase, EraseExt, ExchangeId, Expect, Fork, ForkTo, Forked, HistoryStore,
    HistoryStoreExt, Incarnation, Labels, List, Load, Page, Prefix, PruneTo, Recalled, Seq, StoreError,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{
    BEGINNING, BEHIND, END, ERASED, Intercept, OPTIONAL_PARTS, PARTS, SUMS, TestServer, UNSWEPT, UNSWEPT_END, cluster,
    command, conversation, intercepted, key, made_by, make, patient, providers, recall, recalled_texts, say, texts,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_fork_is_three_scripts,
        a_copy_is_the_same_log,
        a_copy_is_the_same_log_in_a_cluster,
        a_copy_of_a_pruned_log_that_is_not_swept_yet_is_swept,
        nothing_remains_of_what_is_not_copied,
        a_copy_expires_as_a_new_conversation_does,
        a_refused_fork_leaves_no_name,
        staged_exchanges_expire,
        staged_exchanges_that_are_not_the_copy_are_removed,
        a_fork_in_a_cluster_stages_nothing_if_the_copy_exists,
        a_log_that_is_pruned_while_it_is_staged_is_staged_again,
        a_log_that_ends_while_it_is_staged_is_not_copied,
        a_copy_of_a_log_that_ended_after_it_was_staged_is_removed,
        lost_staged_exchanges_are_not_a_damage_of_the_copy,
        the_error_names_the_damaged_conversation,
        a_missing_right_creates_nothing_in_a_cluster,
    ]
}

fn ids(name: &str) -> (ConversationId, ConversationId) {
    (conversation(name), conversation(&format!("{name} copy")))
}

async fn incarnation(store: &RedisStore, id: &ConversationId) -> Incarnation {
    store.read(id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation()
}

/// Copies the exchanges before a position.
async fn fork(store: &RedisStore, id: &ConversationId, to: &ConversationId, before: u64) -> Result<Forked, StoreError> {
    store.fork(id, incarnation(store, id).await, ForkTo::new(to.clone(), Seq::new(before))).await
}

async fn a_fork_is_three_scripts() {
    let mut test = TestServer::new().await;
    for name in ["a", "b"] {
        let (id, copy) = ids(name);
        say(&test.store, &id, "one").await;
        let to = ForkTo::new(copy, Seq::new(9));
        let incarnation = incarnation(&test.store, &id).await;
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        assert_eq!(test.store.fork(&id, incarnation, to).await.unwrap().copied, 1);
        assert_eq!(test.calls("evalsha"), 3, "the name, the copy, and the removal of what is not copied");
    }
}

/// Appends exchanges of all kinds from a position on.
async fn fill(store: &RedisStore, id: &ConversationId, from: u64, to: u64) {
    for seq in from..to {
        match seq % 5 {
            0 => say(store, id, &seq.to_string()).await,
            1 => recall(store, id, &format!("recalled {seq}"), &[seq / 2]).await,
            2 => {
                let citation = Citation::new(Seq::FIRST, 0..1).of(conversation("other"));
                let mut exchange = made_by("others");
                exchange.recalled = Some(Recalled::new("of others", vec![citation]));
                store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap()
            }
            _ => make(store, id, &seq.to_string()).await,
        };
    }
}

async fn a_copy_is_the_same_log() {
    let test = TestServer::new().await;
    same_log(&test.store, 0).await;
}

async fn a_copy_is_the_same_log_in_a_cluster() {
    let store = patient().connect_cluster(cluster().urls()).await.unwrap();
    for number in 0..3 {
        same_log(&store, number).await;
    }
    for mut node in cluster().connections() {
        let staged: Vec<String> = command(&["KEYS", "*same log*:fork:*"]).query(&mut node).unwrap();
        assert_eq!(staged, [] as [&str; 0]);
    }
}

async fn all(store: &RedisStore, id: &ConversationId, before: u64) -> Page {
    let mut page = store.read(id, Seq::FIRST, 10_000).await.unwrap();
    page.exchanges.retain(|recorded| recorded.seq < Seq::new(before));
    page
}

/// The log is longer than a step of a fork in a Cluster.
async fn same_log(store: &RedisStore, number: u64) {
    let (id, copy) = ids(&format!("same log {number}"));
    fill(store, &id, 0, 1_250).await;
    store.conversation(&id).prune(PruneTo::From(Seq::new(10)), Derived::Keep).await.unwrap();
    let to = ForkTo::new(copy.clone(), Seq::new(1_101 + number));
    let to = to.labels(Labels::new([("title", "x".repeat(2_000))]).unwrap());
    let forked = store.fork(&id, incarnation(store, &id).await, to.clone()).await.unwrap();
    let revision = forked.revision.unwrap();
    assert_eq!((revision.incarnation(), forked.copied), (to.incarnation, 1_091 + number));
    assert_eq!((revision.first(), revision.version()), (Seq::new(10), 1_101 + number));

    let mut expected = all(store, &id, 1_101 + number).await;
    for recorded in &mut expected.exchanges {
        let exchange = Arc::make_mut(&mut recorded.exchange);
        exchange.recalled.take_if(|recalled| recalled.least_cited().is_some_and(|cited| cited < 10));
    }
    let copied = all(store, &copy, u64::MAX).await;
    assert_eq!(copied.exchanges.len() as u64, forked.copied);
    assert!(copied.exchanges == expected.exchanges);
    let listed = store.describe(&copy).await.unwrap().unwrap();
    assert_eq!((listed.created_at, listed.updated_at, &listed.labels), (to.at, to.at, &to.labels));
    let bytes: usize = copied.exchanges.iter().map(|recorded| recorded.exchange.bytes()).sum();
    assert_eq!(listed.bytes, bytes as u64);

    assert_eq!(say(store, &copy, "continued").await.seq, Seq::new(1_101 + number));
    let again = store.fork(&id, incarnation(store, &id).await, to.clone()).await.unwrap();
    assert_eq!(again.copied, 1_092 + number, "the call is repeated");
    assert!(matches!(fork(store, &id, &copy, 20).await, Err(StoreError::Conflict { current: Some(_) })));
    assert!(matches!(fork(store, &id, &id, 20).await, Err(StoreError::Conflict { current: Some(_) })));
    store.delete(&id).await.unwrap();
    assert_eq!(all(store, &copy, u64::MAX).await.exchanges.len() as u64, again.copied);
    let [position, removed] = [1_000, 102 + number];
    assert_eq!(store.conversation(&copy).truncate(Seq::new(position)).await.unwrap().removed, removed);
    assert_eq!(store.conversation(&copy).keep_last_turns(5).await.unwrap(), 985);
    assert_eq!(providers(store, &copy).await, ["", "", "others", "998", "999"]);
    assert_eq!(recalled_texts(store, &copy).await, ["", "recalled 996", "", "", ""]);
}

async fn a_copy_of_a_pruned_log_that_is_not_swept_yet_is_swept() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("unswept");
    fill(&test.store, &id, 0, 40).await;
    // Exchanges 0 to 9 are pruned, exchanges from 30 on are truncated, and recalled messages are erased before 25.
    let entry = test.run::<Vec<u8>>(&["LINDEX", &key(&id, ":index"), "30"]);
    let mut state = test.state(&id);
    state[SUMS].copy_from_slice(&entry[1..=SUMS.len()]);
    test.set_state(&id, &state);
    let numbers = [(END, 30), (BEHIND, 10), (BEGINNING, 10), (ERASED, 10), (UNSWEPT, 10), (UNSWEPT_END, 25)];
    test.change_state(&id, &numbers);

    let store = test.store.clone();
    assert_eq!(fork(&store, &id, &copy, 28).await.unwrap().copied, 18);
    let shown = ["recalled 21", "recalled 26"].map(str::to_owned);
    let recalled: Vec<String> = recalled_texts(&store, &copy).await;
    assert_eq!(recalled.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>(), shown);
    let lengths =
        [("LLEN", ":log"), ("LLEN", ":index"), ("HLEN", ":ids"), ("LLEN", ":provenances"), ("HLEN", ":recalled")];
    assert_eq!(lengths.map(|(len, part)| test.run::<u64>(&[len, &key(&copy, part)])), [18, 18, 18, 18, 2]);
    assert_eq!(say(&store, &copy, "next").await.seq, Seq::new(28));
    assert_eq!(texts(&store, &copy).await.len(), 19);
}

async fn nothing_remains_of_what_is_not_copied() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("secrets");
    let store = test.store.clone();
    say(&store, &id, "one").await;
    recall(&store, &id, "kept", &[0]).await;
    let citation = Citation::new(Seq::FIRST, 0..1).of(conversation("other"));
    let mut exchange = made_by("secret");
    exchange.recalled = Some(Recalled::new("secret", vec![citation]));
    store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
    for _ in 0..9 {
        exchange.id = ExchangeId::generate();
        store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
    }
    assert_eq!(fork(&store, &id, &copy, 3).await.unwrap().copied, 3);
    assert_eq!(recalled_texts(&store, &copy).await, ["", "kept", ""]);
    assert_eq!(providers(&store, &copy).await, ["", "", "secret"]);
    let lengths =
        [("LLEN", ":log"), ("LLEN", ":index"), ("HLEN", ":ids"), ("LLEN", ":provenances"), ("HLEN", ":recalled")];
    assert_eq!(lengths.map(|(len, part)| test.run::<u64>(&[len, &key(&copy, part)])), [3, 3, 3, 1, 1]);
    assert_eq!(test.run::<Vec<String>>(&["HKEYS", &key(&copy, "")]), ["s"]);
}

async fn a_copy_expires_as_a_new_conversation_does() {
    let mut test = TestServer::new().await;
    let expiring = patient().expire_after(Duration::from_secs(3_600)).connect(test.server.url()).await.unwrap();
    for (from, to, limits) in
        [(&expiring, &test.store.clone(), -1..=-1), (&test.store.clone(), &expiring, 3_500_000..=3_600_000)]
    {
        let (id, copy) = ids(&format!("expiring {limits:?}"));
        fill(from, &id, 0, 9).await;
        let original: i64 = test.run(&["PEXPIRETIME", &key(&id, "")]);
        assert_eq!(fork(to, &id, &copy, 8).await.unwrap().copied, 8);
        let mut moments = Vec::new();
        for part in PARTS.into_iter().chain(OPTIONAL_PARTS) {
            assert!(limits.contains(&test.run::<i64>(&["PTTL", &key(&copy, part)])), "{part}");
            moments.push(test.run::<i64>(&["PEXPIRETIME", &key(&copy, part)]));
        }
        assert!(moments.iter().all(|moment| *moment == moments[0]), "{moments:?}");
        assert_eq!(test.run::<i64>(&["PEXPIRETIME", &key(&id, ":log")]), original);
        say(&test.store.clone(), &copy, "more").await;
        assert_eq!(test.run::<i64>(&["PTTL", &key(&copy, ":log")]), -1);
    }
}

async fn a_refused_fork_leaves_no_name() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("refused");
    let store = test.store.clone();
    let gone = store.fork(&id, Incarnation::random(), ForkTo::new(copy.clone(), Seq::new(9))).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
    say(&store, &id, "one").await;
    let gone = store.fork(&id, Incarnation::random(), ForkTo::new(copy.clone(), Seq::new(9))).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
    assert_eq!(
        store.fork(&id, incarnation(&store, &id).await, ForkTo::new(copy.clone(), Seq::FIRST)).await.unwrap(),
        Forked::new(None)
    );
    assert_eq!(test.names(), [id.as_str()]);
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = store.fork(&id, incarnation(&store, &id).await, ForkTo::new(copy.clone(), Seq::new(9))).await;
    assert!(matches!(full, Err(StoreError::Full { limit: 1, .. })), "{full:?}");
    assert_eq!((test.names(), test.conversation_keys()), (vec![id.to_string()], 4));
}

/// An event while the exchanges are staged.
enum Event {
    /// The caller is told that they are about to become the copy, and leaves.
    Leaves(Arc<Notify>),
    /// The server refuses to make them the copy.
    Fails,
    /// Another call creates the copy before they become it.
    Creates(RedisStore, ConversationId),
    /// A staged key is evicted.
    Evicts(&'static str),
    /// The log is pruned after the first step.
    Prunes(RedisStore),
    /// The log is deleted after the first step.
    Deletes(RedisStore),
    /// The log is deleted and created again after the first step.
    Replaces(RedisStore),
    /// Everything is erased after the first step.
    Erases(RedisStore),
}

/// Divides the keys of the server. The event happens once.
#[derive(Clone)]
struct Dividing {
    id: ConversationId,
    event: Arc<Mutex<Option<Event>>>,
}

impl Dividing {
    async fn store(test: &TestServer, id: &ConversationId, event: Option<Event>) -> RedisStore {
        intercepted(&test.server, Self { id: id.clone(), event: Arc::new(Mutex::new(event)) }).await
    }

    async fn before_the_last_step(&self, connection: &mut MultiplexedConnection) -> RedisResult<()> {
        let event = self.event.lock().unwrap().take();
        match event {
            Some(Event::Leaves(staged)) => {
                staged.notify_one();
                std::future::pending::<()>().await;
            }
            Some(Event::Fails) => return Err((ErrorKind::Client, "refused").into()),
            Some(Event::Creates(store, copy)) => _ = say(&store, &copy, "other").await,
            Some(Event::Evicts(part)) => {
                let staged: Vec<String> = redis::cmd("KEYS").arg("*:fork:*").query_async(connection).await?;
                let staged = staged.into_iter().find(|key| key.ends_with(part)).unwrap();
                redis::cmd("DEL").arg(staged).query_async::<()>(connection).await?;
            }
            event => *self.event.lock().unwrap() = event,
        }
        Ok(())
    }

    async fn after_a_step(&self) {
        let event = self.event.lock().unwrap().take();
        match event {
            Some(Event::Prunes(store)) => {
                store.conversation(&self.id).prune(PruneTo::From(Seq::new(5)), Derived::Keep).await.unwrap();
            }
            Some(Event::Deletes(store)) => store.delete(&self.id).await.unwrap(),
            Some(Event::Replaces(store)) => {
                store.delete(&self.id).await.unwrap();
                say(&store, &self.id, "again").await;
            }
            Some(Event::Erases(store)) => _ = store.erase_all(&Prefix::all()).await.unwrap(),
            event => *self.event.lock().unwrap() = event,
        }
    }
}

impl Intercept for Dividing {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let packed = String::from_utf8_lossy(&command.get_packed_command()).into_owned();
        if packed.contains("\r\nCOPY\r\n") {
            return Err((ErrorKind::Server(ServerErrorKind::CrossSlot), "keys of several slots").into());
        }

        let is_last = packed.contains("\r\nRENAME\r\n");
        if is_last {
            self.before_the_last_step(connection).await?;
        }
        let answer = connection.req_packed_command(command).await?;
        if packed.contains(":fork:") && !is_last {
            self.after_a_step().await;
        }
        Ok(answer)
    }
}

async fn staged_exchanges_expire() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("left");
    fill(&test.store, &id, 0, 9).await;
    let staged = Arc::new(Notify::new());
    let store = Dividing::store(&test, &id, Some(Event::Leaves(Arc::clone(&staged)))).await;
    tokio::select! {
        done = fork(&store, &id, &copy, 9) => panic!("{done:?}"),
        () = staged.notified() => {}
    }
    assert!(test.store.load(&copy, Load::new()).await.unwrap().is_absent());
    let staged = staged_keys(&mut test);
    assert_eq!(staged.len(), 6);
    for key in staged {
        assert!(key.starts_with(&format!("chat:{{{copy}}}:fork:")), "{key}");
        assert!((540_000..=600_000).contains(&test.run::<i64>(&["PTTL", &key])), "{key}");
    }
    assert_eq!(fork(&store, &id, &copy, 9).await.unwrap().copied, 9);
    assert_eq!(staged_keys(&mut test).len(), 6, "those of the second call are the copy");
}

fn staged_keys(test: &mut TestServer) -> Vec<String> {
    test.run(&["KEYS", "*:fork:*"])
}

async fn staged_exchanges_that_are_not_the_copy_are_removed() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("not the copy");
    fill(&test.store, &id, 0, 600).await;

    let store = Dividing::store(&test, &id, Some(Event::Fails)).await;
    let failed = fork(&store, &id, &copy, 599).await;
    assert!(matches!(failed, Err(StoreError::Backend { .. })), "{failed:?}");
    assert_eq!(staged_keys(&mut test), [] as [&str; 0]);

    let store = Dividing::store(&test, &id, Some(Event::Creates(test.store.clone(), copy.clone()))).await;
    let conflict = fork(&store, &id, &copy, 599).await;
    assert!(matches!(conflict, Err(StoreError::Conflict { current: Some(_) })), "{conflict:?}");
    assert_eq!(staged_keys(&mut test), [] as [&str; 0]);
    assert_eq!(texts(&test.store, &copy).await, ["other"]);
}

async fn a_fork_in_a_cluster_stages_nothing_if_the_copy_exists() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("exists");
    fill(&test.store, &id, 0, 9).await;
    let store = Dividing::store(&test, &id, None).await;
    let incarnation = incarnation(&store, &id).await;
    let to = ForkTo::new(copy.clone(), Seq::new(9));
    let forked = store.fork(&id, incarnation, to.clone()).await.unwrap();

    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    assert_eq!(store.fork(&id, incarnation, to).await.unwrap(), forked);
    assert_eq!(test.calls("evalsha"), 2, "the copy, and the removal of what is not copied");
    let conflict = store.fork(&id, incarnation, ForkTo::new(copy, Seq::new(9))).await;
    assert!(matches!(&conflict, Err(StoreError::Conflict { current }) if *current == forked.revision), "{conflict:?}");
    assert_eq!(test.calls("evalsha"), 3, "the copy");
    assert_eq!(test.calls("rpush"), 0);
}

async fn a_log_that_is_pruned_while_it_is_staged_is_staged_again() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("pruned");
    fill(&test.store, &id, 0, 600).await;
    let store = Dividing::store(&test, &id, Some(Event::Prunes(test.store.clone()))).await;
    let revision = fork(&store, &id, &copy, 599).await.unwrap().revision.unwrap();
    assert_eq!((revision.first(), revision.version()), (Seq::new(5), 599));
    assert_eq!(all(&store, &copy, u64::MAX).await.exchanges.len(), 594);
    assert_eq!(staged_keys(&mut test), [] as [&str; 0], "those of the first attempt are removed");
}

async fn a_log_that_ends_while_it_is_staged_is_not_copied() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("deleted");
    fill(&test.store, &id, 0, 600).await;
    let store = Dividing::store(&test, &id, Some(Event::Deletes(test.store.clone()))).await;
    let gone = fork(&store, &id, &copy, 599).await;
    assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");
    assert_eq!(test.names(), [] as [&str; 0]);
    assert_eq!(staged_keys(&mut test), [] as [&str; 0]);
}

async fn a_copy_of_a_log_that_ended_after_it_was_staged_is_removed() {
    let mut test = TestServer::new().await;
    let (id, copy) = ids("ended");
    let server = test.store.clone();
    for (event, names) in [
        (Event::Deletes(server.clone()), vec![]),
        (Event::Erases(server.clone()), vec![]),
        (Event::Replaces(server.clone()), vec![id.to_string()]),
    ] {
        // The first step stages the whole log.
        fill(&server, &id, 0, 9).await;
        let store = Dividing::store(&test, &id, Some(event)).await;
        let gone = fork(&store, &id, &copy, 9).await;
        assert!(matches!(gone, Err(StoreError::Gone)), "{gone:?}");

        assert!(server.load(&copy, Load::new()).await.unwrap().is_absent());
        assert!(server.count(&Prefix::from(&copy)).await.unwrap().total().is_nothing());
        assert_eq!(test.names(), names);
        assert_eq!(staged_keys(&mut test), [] as [&str; 0]);
    }
}

async fn lost_staged_exchanges_are_not_a_damage_of_the_copy() {
    for part in PARTS.into_iter().chain(OPTIONAL_PARTS) {
        let mut test = TestServer::new().await;
        let (id, copy) = ids("evicted");
        fill(&test.store, &id, 0, 9).await;
        let store = Dividing::store(&test, &id, Some(Event::Evicts(part))).await;
        let lost = fork(&store, &id, &copy, 9).await.unwrap_err();
        assert!(lost.is_retryable(), "{part}: {lost:?}");
        assert_eq!(staged_keys(&mut test), [] as [&str; 0]);
        assert_eq!(fork(&store, &id, &copy, 9).await.unwrap().copied, 9);
    }
}

async fn the_error_names_the_damaged_conversation() {
    for divides in [false, true] {
        let mut test = TestServer::new().await;
        let (id, copy) = ids("damaged");
        fill(&test.store, &id, 0, 9).await;
        let store = if divides { Dividing::store(&test, &id, None).await } else { test.store.clone() };
        let incarnation = incarnation(&store, &id).await;
        for damaged in [&copy, &id] {
            let to = ForkTo::new(copy.clone(), Seq::new(9));
            if damaged == &copy {
                say(&store, &copy, "one").await;
            }
            test.run::<()>(&["DEL", &key(damaged, ":log")]);
            let error = store.fork(&id, incarnation, to).await.unwrap_err();
            assert!(matches!(&error, StoreError::Corrupt { conversation, .. } if conversation == damaged), "{error:?}");
            store.delete(&copy).await.unwrap();
        }
    }
}

/// Creates or changes a user on all nodes.
fn change_user(nodes: &mut [redis::Connection], words: &[&str]) {
    for node in nodes {
        command(&[&["ACL", "SETUSER", "forker"], words].concat()).query::<()>(node).unwrap();
    }
}

async fn a_missing_right_creates_nothing_in_a_cluster() {
    let (id, copy) = ids("few rights");
    let store = patient().connect_cluster(cluster().urls()).await.unwrap();
    fill(&store, &id, 0, 9).await;
    let mut nodes = cluster().connections();
    change_user(&mut nodes, &["on", ">pass", "~chat:*", "+@all"]);
    let urls = cluster().urls().into_iter().map(|url| url.replace("//", "//forker:pass@"));
    let few = patient().connect_cluster(urls).await.unwrap();
    for lacking in ["rename", "rpush", "pexpireat", "unlink", "hset", "persist"] {
        change_user(&mut nodes, &[&format!("-{lacking}")]);
        let refused = fork(&few, &id, &copy, 8).await.unwrap_err();
        assert!(matches!(refused, StoreError::Backend { .. }), "{lacking}: {refused:?}");
        change_user(&mut nodes, &[&format!("+{lacking}")]);
        assert!(store.load(&copy, Load::new()).await.unwrap().is_absent(), "{lacking}");
    }
    assert_eq!(fork(&few, &id, &copy, 8).await.unwrap().copied, 8);
}
