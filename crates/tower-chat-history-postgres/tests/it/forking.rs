//! Forks: their rows and their cost, lost answers, and calls that change the log or create the copy at the same time.

use libtest_mimic::Trial;
use test_servers::trials;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, Citation, CompactionVersion, ConversationId, Derived, Erase, EraseExt as _, Expect, Fork, ForkTo, Forked,
    HistoryStore, Incarnation, Labels, List, Load, Prune, PruneTo, Recalled, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    barring::{epoch, spawn_erasure, waits},
    cost::{long_log, rows},
    limits::state,
    proxy::Proxy,
    support::{
        append, compact_with, connect, conversation, database, exchange, patient, say, single, texts, waits_for_a_lock,
        window,
    },
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        the_rows_of_a_copy_are_those_of_the_log,
        a_fork_is_one_round_trip_and_reads_only_what_it_copies,
        a_fork_whose_answer_is_lost_is_made_once,
        a_dropped_fork_finishes,
        a_fork_sees_one_state_of_the_log_and_delays_no_append,
        what_removes_exchanges_waits_for_a_fork,
        two_forks_into_one_conversation_at_the_same_time_make_one_copy,
        a_fork_waits_for_an_append_that_creates_its_conversation,
        a_fork_waits_for_an_erasure_that_is_being_recorded,
        an_erasure_waits_for_forks_that_are_being_stored,
        forks_among_changes_of_the_log_are_whole,
    ]
}

/// A fork of everything.
fn whole(to: &ConversationId) -> ForkTo {
    ForkTo::new(to.clone(), Seq::new(u64::MAX))
}

/// Creates a log of these texts. Returns its incarnation.
async fn log(store: &PostgresStore, id: &ConversationId, texts: &[&str]) -> Incarnation {
    for text in texts {
        say(store, id, text).await;
    }
    window(store, id).await.revision.incarnation()
}

fn spawn_fork(
    store: &PostgresStore,
    id: &ConversationId,
    of: Incarnation,
    to: &ForkTo,
) -> JoinHandle<Result<Forked, StoreError>> {
    let (store, id, to) = (store.clone(), id.clone(), to.clone());
    tokio::spawn(async move { store.fork(&id, of, to).await })
}

async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap().get(0)
}

/// A copy has the same sums as a log that was truncated to the same position.
async fn the_rows_of_a_copy_are_those_of_the_log() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    log(&store, &id, &["zero", "one", "two"]).await;
    let late = exchange("late").continuing(Seq::new(2));
    store.append(&id, Append::new(Expect::AnyOrCreate, late)).await.unwrap();
    for cited in [0, 2] {
        let mut recalling = exchange("asks \u{0}");
        recalling.recalled = Some(Recalled::new("recalled", vec![Citation::new(Seq::new(cited), 0..1)]));
        store.append(&id, Append::new(Expect::AnyOrCreate, recalling)).await.unwrap();
    }
    let of = log(&store, &id, &["six", "seven"]).await;
    store.prune(&id, of, PruneTo::From(Seq::new(1)), Derived::Keep).await.unwrap();

    let labels = Labels::sealed("x".repeat(4000)).unwrap();
    let compact = compact_with("a summary", 3);
    let to = ForkTo::new(copy.clone(), Seq::new(6)).labels(labels.clone()).compact(Some(compact.clone()));
    let forked = store.fork(&id, of, to.clone()).await.unwrap();
    assert_eq!(forked.copied, 5);

    let differ = "select count(*) from chat_history.exchange a full join chat_history.exchange b \
                  on b.conversation = 2 and b.seq = a.seq where a.conversation = 1 and a.seq < 6 \
                  and (a.messages_before, a.bytes_before, a.media_before, a.messages, a.bytes, a.media, a.continues, \
                  a.id, a.body, a.provenance) is distinct from \
                  (b.messages_before, b.bytes_before, b.media_before, b.messages, b.bytes, b.media, b.continues, \
                  b.id, b.body, b.provenance)";
    assert_eq!(number(&client, differ).await, 0);
    let recalled = "select count(*) from chat_history.exchange \
                    where conversation = 2 and recalled is not null and recalled_first is not null and seq = 5";
    assert_eq!(number(&client, recalled).await, 1, "what cites a pruned exchange is not copied");
    let all =
        "select count(*) from chat_history.exchange where conversation = 2 and (recalled is not null) = (seq = 5)";
    assert_eq!(number(&client, all).await, 5);

    let expected = window(&store, &id).await;
    store.truncate(&id, expected.revision, Seq::new(6), None).await.unwrap();
    let sums = "select count(distinct (first, len, opening, messages, bytes, media)) from chat_history.conversation";
    assert_eq!(number(&client, sums).await, 1);

    let listed = store.describe(&copy).await.unwrap().unwrap();
    assert_eq!((listed.labels, listed.created_at, listed.updated_at), (labels, to.at, to.at));
    assert_eq!(Some(listed.revision), forked.revision);
    let loaded = window(&store, &copy).await;
    assert_eq!(loaded.compaction, Some(compact.stored_as(CompactionVersion::new(1))));
    assert_eq!(loaded.exchanges.len(), 3);
    say(&store, &copy, "next").await;
    assert_eq!(texts(&store, &copy).await[4..], ["asks \u{0}", "next"]);
}

async fn a_fork_is_one_round_trip_and_reads_only_what_it_copies() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, client) = (single(&proxy.url(&url)).await, connect(&url).await);
    let (id, copy) = (conversation("long"), conversation("copy"));
    let of = log(&store, &id, &["x"]).await;
    // The connection prepares the statement.
    store.fork(&id, of, whole(&conversation("other"))).await.unwrap();
    store.delete(&conversation("other")).await.unwrap();
    long_log(&client).await;
    proxy.trips();

    let to = ForkTo::new(copy.clone(), Seq::new(7)).since(Some(epoch(&store, &copy).await));
    assert_eq!(proxy.trips(), 1);
    assert_eq!(store.fork(&id, of, to.clone()).await.unwrap().copied, 7);
    assert_eq!(proxy.trips(), 1, "a fork");
    assert_eq!(store.fork(&id, of, to).await.unwrap().copied, 7);
    assert!(store.fork(&id, of, whole(&copy)).await.is_err());
    assert_eq!(proxy.trips(), 2, "one that is repeated, and one that is refused");
    store.delete(&copy).await.unwrap();

    let fork = format!(
        "select * from chat_history.fork_1('test/long', '{of}', 'test/copy', gen_random_uuid(), 7, null, 0, null, null, \
         0, '', null)"
    );
    // The last copied exchange is read for its sums, and the one that opens its turn, here the same.
    assert_eq!(rows(&client, &fork).await, 1 + 1 + 7);
    store.delete(&copy).await.unwrap();
    client.batch_execute("analyze").await.unwrap();
    assert_eq!(rows(&client, &fork).await, 1 + 1 + 7, "the plan does not depend on statistics");
    assert_eq!(rows(&client, &fork).await, 0, "a refused fork");
}

async fn a_fork_whose_answer_is_lost_is_made_once() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let (id, copy) = (conversation("a"), conversation("copy"));
    let of = log(&store, &id, &["one", "two"]).await;
    store.fork(&id, of, whole(&conversation("other"))).await.unwrap();

    let to = whole(&copy).since(Some(epoch(&store, &copy).await));
    proxy.lose(1);
    let forked = store.fork(&id, of, to.clone()).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(forked.copied, 2);
    assert_eq!(forked.revision.unwrap().incarnation(), to.incarnation);
    assert_eq!(texts(&store, &copy).await, ["one", "two"]);

    // The answer to a repetition by the caller is the current revision.
    let grown = say(&store, &copy, "three").await;
    assert_eq!(store.fork(&id, of, to.clone()).await.unwrap().revision, Some(grown.revision));
    store.delete(&copy).await.unwrap();
    let late = store.fork(&id, of, to).await;
    assert!(matches!(late, Err(StoreError::Gone)), "{late:?}");
    assert!(store.load(&copy, Load::new()).await.unwrap().is_absent());
}

async fn a_dropped_fork_finishes() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    let of = log(&store, &id, &["one", "two"]).await;
    let to = whole(&copy).since(Some(epoch(&store, &copy).await));
    other.batch_execute("begin; select chat_history.bar_1('test/other')").await.unwrap();
    {
        let mut left = store.fork(&id, of, to);
        tokio::select! {
            forked = &mut left => panic!("an erasure of the tenant is being recorded: {forked:?}"),
            _ = waits_for_a_lock(&watcher, &[]) => {}
        }
    }
    other.batch_execute("commit").await.unwrap();
    assert_eq!(texts(&store, &copy).await, ["one", "two"]);
}

/// Sets the time for which a fork waits for a lock.
async fn set_patience(client: &Client, time: &str) {
    let change = format!(
        "alter function chat_history.fork_1(text, uuid, text, uuid, bigint, bigint, bigint, text, text, bigint, bytea, \
         bytea) set lock_timeout = '{time}'"
    );
    client.batch_execute(&change).await.unwrap();
}

/// Makes each call that creates the conversation `test/copy` wait within its statement, until the connection
/// [opens](open) the gate.
async fn close_gate(client: &Client) {
    let gate = "create function public.gate() returns trigger language plpgsql as $$ begin \
                    perform pg_advisory_xact_lock(7); return new; end $$; \
                create trigger gate before insert on chat_history.conversation for each row \
                    when (new.key = 'test/copy') execute function public.gate(); \
                select pg_advisory_lock(7)";
    client.batch_execute(gate).await.unwrap();
    set_patience(client, "10min").await;
}

async fn open_gate(client: &Client) {
    client.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
}

async fn a_fork_sees_one_state_of_the_log_and_delays_no_append() {
    let url = database().await;
    let (store, other) = (single(&url).await, single(&url).await);
    let (gate, watcher) = (connect(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    let of = log(&store, &id, &["zero", "one", "two", "three"]).await;
    close_gate(&gate).await;
    let mut forking = spawn_fork(&store, &id, of, &whole(&copy));
    waits(&mut forking, &watcher).await;

    say(&other, &id, "four").await;
    assert!(!forking.is_finished());

    open_gate(&gate).await;
    assert_eq!(forking.await.unwrap().unwrap().copied, 4);
    assert_eq!(texts(&other, &copy).await, ["zero", "one", "two", "three"]);
    assert_eq!(texts(&other, &id).await.len(), 5);
}

/// An erasure that removed the log before the copy appears would find nothing left.
async fn what_removes_exchanges_waits_for_a_fork() {
    let url = database().await;
    let (store, gate, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    close_gate(&gate).await;
    for removal in ["truncate", "prune", "delete", "erase"] {
        let of = log(&store, &id, &["zero", "one", "two"]).await;
        let revision = window(&store, &id).await.revision;
        let mut forking = spawn_fork(&store, &id, of, &whole(&copy));
        waits(&mut forking, &watcher).await;

        let (other, id) = (patient().connect(&url).await.unwrap(), id.clone());
        let mut removing = tokio::spawn(async move {
            match removal {
                "truncate" => drop(other.truncate(&id, revision, Seq::new(1), None).await.unwrap()),
                "prune" => drop(other.prune(&id, of, PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap()),
                "delete" => other.delete(&id).await.unwrap(),
                _ => drop(other.erase_all(&"test".parse().unwrap()).await.unwrap()),
            }
        });
        let blocked = "select count(*) from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0 \
                       and datname = current_database()";
        while number(&watcher, blocked).await < 2 {
            assert!(!removing.is_finished(), "a {removal} does not wait");
            tokio::task::yield_now().await;
        }
        open_gate(&gate).await;
        assert_eq!(forking.await.unwrap().unwrap().copied, 3, "{removal}");
        (&mut removing).await.unwrap();
        assert_eq!(texts(&store, &copy).await.is_empty(), removal == "erase", "{removal}");
        store.erase_all(&"test".parse().unwrap()).await.unwrap();
        gate.batch_execute("select pg_advisory_lock(7)").await.unwrap();
    }
}

async fn two_forks_into_one_conversation_at_the_same_time_make_one_copy() {
    let url = database().await;
    let store = patient().connections(2).connect(&url).await.unwrap();
    let (gate, watcher) = (connect(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    let of = log(&store, &id, &["one", "two"]).await;
    close_gate(&gate).await;
    for is_same in [true, false] {
        let first = whole(&copy);
        let second = if is_same { first.clone() } else { whole(&copy) };
        let forks = [&first, &second].map(|to| spawn_fork(&store, &id, of, to));
        let waiting =
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        while number(&watcher, waiting).await < 2 {
            assert!(!forks.iter().any(JoinHandle::is_finished));
        }
        open_gate(&gate).await;

        let (mut made, mut refused) = (Vec::new(), 0);
        for forking in forks {
            match forking.await.unwrap() {
                Ok(forked) => made.push(forked.revision.unwrap()),
                Err(StoreError::Conflict { current }) => {
                    assert_eq!(current, Some(window(&store, &copy).await.revision));
                    refused += 1;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!((made.len(), refused), if is_same { (2, 0) } else { (1, 1) });
        assert_eq!(made[0], window(&store, &copy).await.revision);
        assert_eq!(texts(&store, &copy).await, ["one", "two"]);
        store.delete(&copy).await.unwrap();
        gate.batch_execute("select pg_advisory_lock(7)").await.unwrap();
    }
}

async fn a_fork_waits_for_an_append_that_creates_its_conversation() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let (id, copy) = (conversation("a"), conversation("copy"));
    let of = log(&store, &id, &["one", "two"]).await;
    let creates = "begin; select * from chat_history.append_1(null, 'test/copy', 3, null, null, null, 0, gen_random_uuid(), \
                   'x', 0, null, 1, 1, 0, 'x', null, null, null, null, 0, 0, '', null)";
    for end in ["commit", "rollback"] {
        other.batch_execute(creates).await.unwrap();
        let mut forking = spawn_fork(&store, &id, of, &whole(&copy));
        waits(&mut forking, &watcher).await;
        other.batch_execute(end).await.unwrap();
        let forked = forking.await.unwrap();
        if end == "commit" {
            let Err(StoreError::Conflict { current: Some(current) }) = forked else { panic!("{forked:?}") };
            assert_eq!(current.version(), 1);
            store.delete(&copy).await.unwrap();
        } else {
            assert_eq!(forked.unwrap().copied, 2);
        }
    }

    // The wait is limited.
    store.delete(&copy).await.unwrap();
    set_patience(&other, "20ms").await;
    other.batch_execute(creates).await.unwrap();
    assert_eq!(state(&store.fork(&id, of, whole(&copy)).await.unwrap_err()), "55P03");
    other.batch_execute("rollback").await.unwrap();
    assert_eq!(store.fork(&id, of, whole(&copy)).await.unwrap().copied, 2);
}

async fn a_fork_waits_for_an_erasure_that_is_being_recorded() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let (id, copy) = (ConversationId::new(["else", "a"]).unwrap(), conversation("copy"));
    let of = log(&store, &id, &["one"]).await;
    for erased in ["test/copy", "test/copy/", "test/", "/"] {
        let to = whole(&copy).since(Some(epoch(&store, &copy).await));
        other.batch_execute(&format!("begin; select chat_history.bar_1('{erased}')")).await.unwrap();
        let mut forking = spawn_fork(&store, &id, of, &to);
        waits(&mut forking, &watcher).await;
        other.batch_execute("commit").await.unwrap();
        let forked = forking.await.unwrap();
        assert!(matches!(forked, Err(StoreError::Gone)), "{erased}: {forked:?}");
        assert!(store.load(&copy, Load::new()).await.unwrap().is_absent());
    }
    // An erasure of the log itself is no erasure of the copy.
    let to = whole(&copy).since(Some(epoch(&store, &copy).await));
    store.bar(&"else".parse().unwrap()).await.unwrap();
    assert_eq!(store.fork(&id, of, to).await.unwrap().copied, 1);
}

async fn an_erasure_waits_for_forks_that_are_being_stored() {
    let url = database().await;
    let store = patient().connections(2).connect(&url).await.unwrap();
    let (other, watcher) = (connect(&url).await, connect(&url).await);
    let (id, copy) = (ConversationId::new(["else", "a"]).unwrap(), conversation("copy"));
    let of = log(&store, &id, &["one", "two"]).await;
    for under in ["test/copy", "test"] {
        let since = epoch(&store, &copy).await.get();
        let forks = format!(
            "begin; select * from chat_history.fork_1('else/a', '{of}', 'test/copy', gen_random_uuid(), 9, {since}, 0, \
             null, null, 0, '', null)"
        );
        other.batch_execute(&forks).await.unwrap();
        let mut erasure = spawn_erasure(&store, under);
        waits(&mut erasure, &watcher).await;
        other.batch_execute("commit").await.unwrap();
        let removed = erasure.await.unwrap();
        assert_eq!((removed.conversations, removed.exchanges), (1, 2), "{under}");
        assert!(store.load(&copy, Load::new()).await.unwrap().is_absent());
    }
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

/// A log is truncated, extended and pruned while it is copied. Each copy has a state that the log had.
async fn forks_among_changes_of_the_log_are_whole() {
    const FORKS: usize = 40;
    let url = database().await;
    let store = patient().connections(3).connect(&url).await.unwrap();
    let (id, other) = (conversation("a"), single(&url).await);
    log(&store, &id, &["0", "1"]).await;
    let changing = tokio::spawn({
        let id = id.clone();
        async move {
            for round in 0.. {
                let last = other.append(&id, append(&(round + 2).to_string())).await.unwrap().revision;
                if round % 3 == 0 {
                    let keep = PruneTo::From(Seq::new(round));
                    other.prune(&id, last.incarnation(), keep, Derived::Erase).await.unwrap();
                } else {
                    other.truncate(&id, last, Seq::new(round + 2), None).await.unwrap();
                    say(&other, &id, &(round + 2).to_string()).await;
                }
            }
        }
    });
    let mut made = 0;
    while made < FORKS {
        let of = window(&store, &id).await.revision.incarnation();
        let copy = conversation(&format!("copy-{made}"));
        match store.fork(&id, of, whole(&copy)).await {
            Ok(forked) => {
                made += 1;
                let revision = forked.revision.unwrap();
                let expected: Vec<_> = (revision.first().get()..revision.version()).map(|at| at.to_string()).collect();
                assert_eq!(texts(&store, &copy).await, expected);
            }
            Err(StoreError::Gone) => assert!(store.load(&copy, Load::new()).await.unwrap().is_absent()),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(!changing.is_finished());
    changing.abort();
}
