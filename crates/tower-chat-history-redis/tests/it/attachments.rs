//! Attachments, which have two keys of their own.

use libtest_mimic::Trial;
use redis::{
    Cmd, Pipeline, RedisFuture, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use test_servers::trials;
use tower_chat_history_core::{
    Attach, Attachment, ConversationId, Derived, HistoryStore, HistoryStoreExt, PruneTo, Seq, StoreError,
};
use tower_chat_history_redis::RedisStore;

use crate::support::{
    OPTIONAL_PARTS, TestServer, attach, attached, attachment, conversation, key, make, multiplexed, name, patient,
    recall, say, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        small_attachments_are_one_script_each_way,
        large_attachments_are_stored_at_once_and_read_in_steps,
        attachments_that_change_between_two_steps_are_read_again,
        attachments_that_always_change_are_not_read_forever,
        exchanges_that_change_between_two_steps_are_picked_again,
        exchanges_that_are_appended_between_two_steps_are_not_picked,
        names_are_kept_apart,
        a_full_server_refuses_attachments_and_removes_them,
        nothing_remains_of_removed_attachments,
    ]
}

/// Creates a conversation of four exchanges.
async fn setup() -> (TestServer, ConversationId) {
    let (test, id) = (TestServer::new().await, conversation("attached"));
    for text in ["one", "two", "three", "four"] {
        say(&test.store, &id, text).await;
    }
    (test, id)
}

async fn small_attachments_are_one_script_each_way() {
    let (mut test, id) = setup().await;
    let store = test.store.clone();
    let incarnation = window(&store, &id).await.revision.incarnation();
    let put = [attachment("a", 0, b"0"), attachment("b", 1, b"1")];
    for round in 0..2 {
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        store.attach(&id, incarnation, &[put[0].key()], &put).await.unwrap();
        assert_eq!(store.attachments(&id, &[name("a"), name("b")], 9).await.unwrap().attachments, put);
        assert_eq!(store.pick(&id, &[0, 2].map(Seq::new)).await.unwrap().exchanges.len(), 2);
        if round == 1 {
            assert_eq!((test.calls("evalsha"), test.calls("eval")), (3, 0));
        }
    }
}

async fn large_attachments_are_stored_at_once_and_read_in_steps() {
    let (mut test, id) = setup().await;
    let store = test.store.clone();
    let body = |byte| vec![byte; Attachment::MAX_BYTES];
    let put: Vec<_> = (0..4_u8).flat_map(|at| ["a", "b"].map(|of| attachment(of, at.into(), &body(at)))).collect();
    attach(&store, &id, &put).await;
    attach(&store, &id, &[attachment("c", 0, b"small")]).await;
    test.run::<()>(&["CONFIG", "RESETSTAT"]);
    let names = ["b", "c", "a"].map(name);
    let read = store.attachments(&id, &names, usize::MAX).await.unwrap();
    let read: Vec<_> = read.attachments.iter().map(|one| (one.name.to_string(), one.body[0], one.body.len())).collect();
    let large = |of: &str| (0..4).map(|at| (of.to_owned(), at, Attachment::MAX_BYTES)).collect::<Vec<_>>();
    assert_eq!(read, [large("b"), vec![("c".to_owned(), b's', 5)], large("a")].concat());
    assert_eq!(test.calls("evalsha"), 10, "each step returns at most four megabytes, or one attachment");
    let part = store.attachments(&id, &names, 2 * Attachment::MAX_BYTES + 1).await.unwrap();
    assert_eq!((part.attachments.len(), part.more), (2, true));
    // Many small ones of one name are read in parts, too.
    let many: Vec<_> = (0..4_500).map(|n| attachment(&format!("many/{n}"), 0, b"x")).collect();
    attach(&store, &id, &many).await;
    let names: Vec<_> = many.iter().map(|one| one.name.clone()).collect();
    assert_eq!(store.attachments(&id, &names, usize::MAX).await.unwrap().attachments, many);
}

/// Changes the conversation after each script.
#[derive(Clone)]
struct Overtaken {
    connection: MultiplexedConnection,
    other: RedisStore,
    id: ConversationId,
    change: Change,
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    Attach,
    Append,
    Truncate,
}

impl Overtaken {
    async fn store(test: &TestServer, id: &ConversationId, change: Change) -> RedisStore {
        let connection = multiplexed(&test.server).await;
        let other = test.store.clone();
        patient().over(Self { connection, other, id: id.clone(), change }).await.unwrap()
    }

    async fn change(&self) {
        let number = attached(&self.other, &self.id, "changes").await.len();
        match self.change {
            Change::Append => drop(say(&self.other, &self.id, "more").await),
            Change::Truncate if window(&self.other, &self.id).await.revision.version() > 3 => {
                self.other.conversation(&self.id).truncate(Seq::new(3)).await.unwrap();
            }
            Change::Truncate => {}
            Change::Attach => attach(&self.other, &self.id, &[attachment("changes", number as u64, b"x")]).await,
        }
    }
}

impl ConnectionLike for Overtaken {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let answer = self.connection.req_packed_command(command).await;
            // The first answer may be that the server does not have the script. The next one may be that the result is
            // large.
            let is_step = |answer: &Value| matches!(answer, Value::Array(parts) if parts.len() > 1);
            if answer.as_ref().is_ok_and(is_step) && command.get_packed_command().windows(4).any(|part| part == b"EVAL")
            {
                self.change().await;
            }
            answer
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// Attaches data of which one step returns one half.
async fn attach_two_halves(test: &TestServer, id: &ConversationId) -> Vec<Attachment> {
    let half = |at: u64| attachment("a", at, &vec![b'x'; 3 << 20]);
    let halves = vec![half(0), half(3)];
    attach(&test.store, id, &halves).await;
    halves
}

/// A truncation removes the second half after the first step.
async fn attachments_that_change_between_two_steps_are_read_again() {
    let (test, id) = setup().await;
    let halves = attach_two_halves(&test, &id).await;
    let store = Overtaken::store(&test, &id, Change::Truncate).await;
    let read = store.attachments(&id, &[name("a")], usize::MAX).await.unwrap();
    let now = window(&test.store, &id).await.revision;
    assert_eq!((read.revision, read.attachments.as_slice()), (Some(now), &halves[..1]));
    // An append changes no attachment. The result is as of the first step.
    let (test, id) = setup().await;
    let halves = attach_two_halves(&test, &id).await;
    let before = window(&test.store, &id).await.revision;
    let store = Overtaken::store(&test, &id, Change::Append).await;
    let read = store.attachments(&id, &[name("a")], usize::MAX).await.unwrap();
    assert_eq!((read.revision, read.attachments), (Some(before), halves));
}

async fn attachments_that_always_change_are_not_read_forever() {
    let (test, id) = setup().await;
    for _ in 0..40 {
        say(&test.store, &id, "more").await;
    }
    attach_two_halves(&test, &id).await;
    let store = Overtaken::store(&test, &id, Change::Attach).await;
    let error = store.attachments(&id, &[name("a")], usize::MAX).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable { .. }), "{error:?}");
}

async fn exchanges_that_change_between_two_steps_are_picked_again() {
    let (test, id) = setup().await;
    let large = "x".repeat(2 << 20);
    for _ in 0..3 {
        say(&test.store, &id, &large).await;
    }
    let store = Overtaken::store(&test, &id, Change::Truncate).await;
    let page = store.pick(&id, &[1, 4, 5, 6].map(Seq::new)).await.unwrap();
    let now = window(&test.store, &id).await.revision;
    assert_eq!((page.revision, page.exchanges.len()), (Some(now), 1));
}

async fn exchanges_that_are_appended_between_two_steps_are_not_picked() {
    let (test, id) = setup().await;
    let large = "x".repeat(2 << 20);
    for _ in 0..3 {
        say(&test.store, &id, &large).await;
    }
    let before = window(&test.store, &id).await.revision;
    let store = Overtaken::store(&test, &id, Change::Append).await;
    let page = store.pick(&id, &[1, 4, 5, 6, 7, 8].map(Seq::new)).await.unwrap();
    assert_eq!((page.revision, page.exchanges.len()), (Some(before), 4));
}

/// The keys of attachments are compared as a whole.
async fn names_are_kept_apart() {
    let (test, id) = setup().await;
    let longest = "~".repeat(64);
    let names = ["a", "a!", "a/", "a0", "a0000000000000000", "A", "!", "|", "[", "(a", "-", "+", &longest];
    let put: Vec<_> = names.iter().map(|of| attachment(of, 1, of.as_bytes())).collect();
    attach(&test.store, &id, &put).await;
    for one in &put {
        assert_eq!(attached(&test.store, &id, one.name.as_str()).await, std::slice::from_ref(one));
    }
    let incarnation = window(&test.store, &id).await.revision.incarnation();
    for (at, one) in put.iter().enumerate() {
        test.store.attach(&id, incarnation, &[one.key()], &[]).await.unwrap();
        let all: Vec<_> = put.iter().map(|one| one.name.clone()).collect();
        let left = test.store.attachments(&id, &all, usize::MAX).await.unwrap().attachments;
        assert_eq!(left, put[at + 1..]);
    }
}

async fn a_full_server_refuses_attachments_and_removes_them() {
    let (mut test, id) = setup().await;
    let store = test.store.clone();
    let stored = [attachment("a", 0, b"stays"), attachment("a", 1, b"goes")];
    attach(&store, &id, &stored).await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    test.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    for put in [[attachment("a", 1, b"new")], [attachment("b", 0, b"new")]] {
        let full = store.attach(&id, incarnation, &[stored[1].key()], &put).await.unwrap_err();
        assert!(matches!(full, StoreError::Full { requested: 3, limit: 1, .. }), "{full:?}");
    }
    assert_eq!(attached(&store, &id, "a").await, stored);
    store.attach(&id, incarnation, &[stored[1].key()], &[]).await.unwrap();
    assert_eq!(attached(&store, &id, "a").await, stored[..1]);
    store.conversation(&id).truncate(Seq::new(2)).await.unwrap();
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert_eq!(attached(&store, &id, "a").await, []);
    store.delete(&id).await.unwrap();
    assert_eq!(test.conversation_keys(), 0);
}

async fn nothing_remains_of_removed_attachments() {
    let (mut test, id) = setup().await;
    let store = test.store.clone();
    let put: Vec<_> = (0..4).map(|at| attachment("a", at, format!("secret {at}").as_bytes())).collect();
    attach(&store, &id, &put).await;
    store.conversation(&id).truncate(Seq::new(3)).await.unwrap();
    assert_eq!(attached(&store, &id, "a").await, put[..3]);
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();
    assert_eq!(attached(&store, &id, "a").await, put[..3]);
    store.conversation(&id).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    assert_eq!(attached(&store, &id, "a").await, put[1..3]);
    let bodies: Vec<String> = test.run(&["HVALS", &key(&id, ":bodies")]);
    let members: Vec<String> = test.run(&["ZRANGE", &key(&id, ":attached"), "0", "-1"]);
    assert_eq!((bodies.len(), members.len()), (2, 2));
    assert!(!bodies.contains(&"secret 0".to_owned()) && !bodies.contains(&"secret 3".to_owned()));
    let incarnation = window(&store, &id).await.revision.incarnation();
    store.attach(&id, incarnation, &[put[1].key(), put[2].key()], &[]).await.unwrap();
    recall(&store, &id, "shown", &[]).await;
    make(&store, &id, "p").await;
    attach(&store, &id, &put[1..2]).await;
    let exist = |test: &mut TestServer| OPTIONAL_PARTS.map(|part| test.run::<u64>(&["EXISTS", &key(&id, part)]));
    assert_eq!(exist(&mut test), [1; 4]);
    store.conversation(&id).truncate(Seq::new(1)).await.unwrap();
    assert_eq!(exist(&mut test), [0; 4], "a truncation of the whole log removes all keys");
    assert_eq!(test.conversation_keys(), 0);
}
