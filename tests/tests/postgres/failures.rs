//! Connections that fail: no call does, where another one works, and nothing is stored twice.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::{join, join_all};
use libtest_mimic::Trial;
use tests::servers::test;
use tokio::sync::watch;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, Expect, HistoryStore, Keep, Load, Loaded, Prune, Seq, StoreError,
    Traces, Truncate,
};
use tower_chat_history_postgres::PostgresOptions;

use crate::{
    proxy::Proxy,
    support::{append, compact, connect, conversation, database, exchange, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("failures::a_connection_that_died_in_the_pool_fails_no_call", a_connection_that_died_fails_no_call),
        test("failures::calls_survive_connections_that_are_killed", calls_survive_connections_that_are_killed),
        test("failures::an_exchange_whose_acknowledgement_is_lost_is_stored_once", an_acknowledgement_is_lost),
        test("failures::what_an_append_stored_is_known_to_its_repetition_only", known_to_its_repetition_only),
        test("failures::every_other_lost_answer_is_asked_for_again", every_other_lost_answer_is_asked_for_again),
        test("failures::a_truncation_is_not_repeated_once_it_may_be_done", a_truncation_is_not_repeated),
        test("failures::a_commit_that_fails_is_repeated_only_if_it_was_surely_undone", a_commit_that_fails),
        test("failures::connections_made_since_are_kept_when_others_are_lost", connections_made_since_are_kept),
        test("failures::forgotten_statements_are_prepared_again", forgotten_statements_are_prepared_again),
        test("failures::a_call_that_waits_for_a_lock_can_be_left", a_call_that_waits_for_a_lock_can_be_left),
        test("failures::a_full_pool_is_unavailable", a_full_pool_is_unavailable),
        Trial::test("failures::a_call_without_a_runtime_is_an_error", || {
            a_call_without_a_runtime_is_an_error();
            Ok(())
        }),
    ]
}

/// Ends every other connection to the database, and says how many there were.
async fn kill(admin: &Client) -> usize {
    let others = "select pg_terminate_backend(pid) from pg_stat_activity \
                  where datname = current_database() and pid <> pg_backend_pid()";
    admin.query(others, &[]).await.unwrap().len()
}

async fn a_connection_that_died_fails_no_call() {
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
    let options = PostgresOptions::new().connections(4).retry_for(Duration::from_secs(60));
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
    assert_eq!(said.len(), TASKS * TURNS, "none is lost, none is there twice");
    assert_eq!(said.into_iter().collect::<BTreeSet<_>>().len(), TASKS * TURNS);
}

async fn an_acknowledgement_is_lost() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    say(&store, &id, "one").await;
    proxy.lose(1);
    let appended = say(&store, &id, "two").await;
    assert!(proxy.has_lost() && !appended.duplicate, "the repetition found what this call had stored");
    assert_eq!(appended.seq, Seq::new(1));
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn known_to_its_repetition_only() {
    let (url, proxy) = (database().await, Proxy::new());
    let (store, other) = (single(&proxy.url(&url)).await, single(&url).await);
    let id = conversation("a");
    let first = append("one");
    proxy.lose(2);
    let appended = store.append(&id, first.clone()).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate, "also one that creates the conversation");
    assert!(store.append(&id, first.clone()).await.unwrap().duplicate, "the same exchange, by another call");
    assert!(other.append(&id, first).await.unwrap().duplicate);
    let compacting = append("two").compact(compact(CompactionVersion::NONE, 1));
    proxy.lose(1);
    let appended = store.append(&id, compacting).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate);
    assert_eq!(appended.compaction, Some(CompactOutcome::Stored(CompactionVersion::new(1))));
    assert_eq!(appended.revision, window(&other, &id).await.revision);
    // Its expectation no longer holds when it is repeated, since it was met.
    let exactly = Append::new(Expect::Exactly(appended.revision), exchange("three"));
    proxy.lose(1);
    let appended = store.append(&id, exactly).await.unwrap();
    assert!(proxy.has_lost() && !appended.duplicate);
    assert_eq!(texts(&other, &id).await, ["one", "two", "three"]);
}

async fn every_other_lost_answer_is_asked_for_again() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    let first = say(&store, &id, "one").await;
    say(&store, &id, "two").await;
    window(&store, &id).await;
    proxy.lose(1);
    assert_eq!(window(&store, &id).await.exchanges.len(), 2);
    store.read(&id, Seq::FIRST, 1).await.unwrap();
    proxy.lose(1);
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
    // The first compaction prepares the statement, the second one is stored, and so found stored by its repetition.
    let incarnation = first.revision.incarnation();
    let stored = store.compact(&id, incarnation, compact(CompactionVersion::NONE, 0)).await.unwrap();
    assert_eq!(stored, CompactOutcome::Stored(CompactionVersion::new(1)));
    proxy.lose(1);
    let stored = store.compact(&id, incarnation, compact(CompactionVersion::new(1), 1)).await.unwrap();
    assert_eq!(stored, CompactOutcome::Stored(CompactionVersion::new(2)));
    store.delete(&conversation("none")).await.unwrap();
    proxy.lose(1);
    store.delete(&id).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), Loaded::Absent);
}

async fn a_truncation_is_not_repeated() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let id = conversation("a");
    let cut = async |number: u64| {
        let last = say(&store, &id, "cut").await;
        assert_eq!(last.seq, Seq::new(number));
        store.truncate(&id, last.revision, Seq::new(number)).await.map(|truncated| truncated.removed)
    };
    say(&store, &id, "stays").await;
    assert_eq!(cut(1).await.unwrap(), 1);
    proxy.trips();
    assert_eq!(cut(1).await.unwrap(), 1);
    let trips = isize::try_from(proxy.trips()).unwrap();
    // The first is the append's.
    for lost in 2..trips {
        proxy.lose(lost);
        let cut = cut(1).await;
        assert!(proxy.has_lost());
        assert_eq!(cut.unwrap(), 1, "answer {lost} of {trips}");
        // What was lost with the connection is prepared again.
        say(&store, &id, "cut").await;
        let last = window(&store, &id).await.revision;
        store.truncate(&id, last, Seq::new(1)).await.unwrap();
    }
    proxy.lose(trips);
    let open = cut(1).await.unwrap_err();
    assert!(proxy.has_lost() && open.is_retryable(), "{open:?}");
    assert_eq!(texts(&store, &id).await, ["stays"], "it was done, as it turns out");

    // A prune is repeated where that can do no harm, and tells what is so.
    say(&store, &id, "newest").await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    store.prune(&id, incarnation, Keep::LastTurns(9), Traces::Leave).await.unwrap();
    proxy.lose(2);
    let pruned = store.prune(&id, incarnation, Keep::LastTurns(1), Traces::Leave).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(pruned.removed, 1);
}

async fn a_commit_that_fails() {
    let url = database().await;
    let (store, admin) = (single(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    // 53200 may pass, but says nothing about what became of the transaction.
    for (state, done, tries) in [("53200", false, 1), ("40001", true, 2), ("40P01", true, 2)] {
        let last = say(&store, &id, "cut").await;
        let fails = format!(
            "create sequence public.tries; \
             create function public.fails() returns trigger language plpgsql as $$ begin \
                if nextval('public.tries') = 1 then raise exception using errcode = '{state}'; end if; return null; end $$; \
             create constraint trigger fails after update on chat_history.conversation deferrable initially deferred \
                for each row execute function public.fails()"
        );
        admin.batch_execute(&fails).await.unwrap();
        let cut = store.truncate(&id, last.revision, Seq::new(1)).await;
        assert_eq!(cut.is_ok(), done, "{state}: {cut:?}");
        assert!(cut.err().is_none_or(|error| error.is_retryable()));
        let made = admin.query_one("select last_value from public.tries", &[]).await.unwrap();
        assert_eq!(made.get::<_, i64>(0), tries, "{state}");
        admin.batch_execute("drop function public.fails() cascade; drop sequence public.tries").await.unwrap();
        if !done {
            store.truncate(&id, last.revision, Seq::new(1)).await.unwrap();
        }
    }
}

/// The session of another connection than these that waits for a lock, once there is one.
async fn waits_for_a_lock(watcher: &Client, but: &[i32]) -> i32 {
    let waits = "select pid from pg_stat_activity \
                 where wait_event_type = 'Lock' and datname = current_database() and pid <> all ($1)";
    loop {
        if let Some(row) = watcher.query(waits, &[&but]).await.unwrap().first() {
            return row.get(0);
        }
    }
}

async fn connections_made_since_are_kept() {
    let url = database().await;
    let options = PostgresOptions::new().connections(3).retry_for(Duration::from_secs(60));
    let (store, admin, watcher) = (options.connect(&url).await.unwrap(), connect(&url).await, connect(&url).await);
    let id = conversation("a");
    say(&store, &id, "one").await;
    admin.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
    let ends = "select pg_terminate_backend($1)";
    let losing = async {
        let first = waits_for_a_lock(&watcher, &[]).await;
        // The others are made while the call is under way.
        let others = [store.pool().get().await.unwrap(), store.pool().get().await.unwrap()];
        let mut made = BTreeSet::new();
        for other in others {
            made.insert(other.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0));
        }
        watcher.query(ends, &[&first]).await.unwrap();
        let second = waits_for_a_lock(&watcher, &[first]).await;
        assert!(made.remove(&second), "the call goes on with one of them");
        watcher.query(ends, &[&second]).await.unwrap();
        let third = waits_for_a_lock(&watcher, &[first, second]).await;
        assert!(made.contains(&third), "and then with the other one");
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

async fn a_call_that_waits_for_a_lock_can_be_left() {
    let url = database().await;
    let options = PostgresOptions::new().connections(2);
    let (store, admin) = (options.connect(&url).await.unwrap(), connect(&url).await);
    let (id, other) = (conversation("a"), conversation("b"));
    say(&store, &id, "one").await;
    admin.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
    // Another connection watches: within a transaction the statistics stand still.
    let (left, watcher) = (append("left"), connect(&url).await);
    let waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    let waiting = async { while watcher.query(waits, &[]).await.unwrap().is_empty() {} };
    {
        let mut appending = store.append(&id, left.clone());
        tokio::select! {
            appended = &mut appending => panic!("the row is locked: {appended:?}"),
            () = waiting => {}
        }
    }
    say(&store, &other, "another conversation goes on").await;
    admin.batch_execute("commit").await.unwrap();
    // What was left is done or not; a repetition settles it.
    store.append(&id, left).await.unwrap();
    assert_eq!(texts(&store, &id).await, ["one", "left"]);
}

async fn a_full_pool_is_unavailable() {
    let url = database().await;
    let options = PostgresOptions::new().connections(1).wait(Duration::from_millis(500));
    let store = options.connect(&url).await.unwrap();
    let _held = store.pool().get().await.unwrap();
    let error = store.load(&conversation("a"), Load::new()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

fn a_call_without_a_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = runtime.block_on(async { single(&database().await).await });
    let outside = futures_util::FutureExt::now_or_never(async { store.load(&conversation("a"), Load::new()).await });
    assert!(matches!(outside, Some(Err(StoreError::Unavailable { .. }))), "{outside:?}");
}
