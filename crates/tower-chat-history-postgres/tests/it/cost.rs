//! The cost of a call: one round trip, and only the rows of its window.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    Append, CompactionVersion, Derived, Expect, HistoryStore, Load, LoadLimit, Loaded, Prune, PruneTo, Seq, Truncate,
};

use crate::{
    proxy::Proxy,
    support::{append, compact, connect, conversation, database, exchange, say, single, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        every_call_of_a_turn_is_one_round_trip,
        an_append_updates_no_index_of_its_conversation,
        a_long_log_is_read_no_further_than_the_limit,
        a_page_is_read_no_further_than_its_limit,
        pages_end_by_size_but_have_at_least_one_exchange,
        a_window_after_editing_is_within_its_limit,
    ]
}

async fn every_call_of_a_turn_is_one_round_trip() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let (id, other) = (conversation("a"), conversation("other"));
    // A connection prepares a statement at its first use.
    let first = say(&store, &other, "one").await;
    store.load(&other, Load::new()).await.unwrap();
    store.read(&other, Seq::FIRST, 1).await.unwrap();
    store.compact(&other, first.revision.incarnation(), compact(CompactionVersion::NONE, 0)).await.unwrap();
    store.delete(&other).await.unwrap();
    proxy.trips();

    let absent = store.load(&id, Load::new()).await.unwrap();
    assert_eq!((absent.is_absent(), proxy.trips()), (true, 1));
    let first = say(&store, &id, "one").await;
    assert_eq!(proxy.trips(), 1, "the first append, which creates the conversation");
    let incarnation = first.revision.incarnation();
    let again = append("two");
    store.append(&id, again.clone()).await.unwrap();
    assert_eq!(proxy.trips(), 1, "a further append");
    assert!(store.append(&id, again).await.unwrap().duplicate);
    assert_eq!(proxy.trips(), 1, "a repeated append");
    let stale = Append::new(Expect::Exactly(first.revision), exchange("stale"));
    assert!(store.append(&id, stale).await.is_err());
    assert_eq!(proxy.trips(), 1, "a refused append");
    let compacting = append("three").compact(compact(CompactionVersion::NONE, 2));
    assert!(store.append(&id, compacting).await.unwrap().compaction.is_some());
    assert_eq!(proxy.trips(), 1, "an append with a compaction");
    assert_eq!(window(&store, &id).await.exchanges.len(), 1);
    assert_eq!(proxy.trips(), 1, "a load");
    store.compact(&id, incarnation, compact(CompactionVersion::new(1), 2)).await.unwrap();
    assert_eq!(proxy.trips(), 1, "a compaction by itself");
    assert_eq!(store.read(&id, Seq::FIRST, 10).await.unwrap().exchanges.len(), 3);
    assert_eq!(proxy.trips(), 1, "a page");
    store.delete(&id).await.unwrap();
    assert_eq!(proxy.trips(), 2, "a deletion is recorded first, which reads the incarnation to delete");
    store.delete(&id).await.unwrap();
    assert_eq!(proxy.trips(), 1, "a deletion of a missing conversation");
}

const EXCHANGES: i64 = 100_000;

/// Creates a log of 100,000 exchanges from one that the store wrote. This uses SQL, because the store would
/// take too long.
pub(crate) async fn long_log(client: &tokio_postgres::Client) {
    client
        .batch_execute(&format!(
            "insert into chat_history.exchange \
                select e.conversation, q, e.messages * q, e.bytes * q, e.media * q, e.messages, e.bytes, e.media, null, \
                    e.call, 'e' || q, replace(e.body, e.id, 'e' || q) \
                from chat_history.exchange e, generate_series(1, {EXCHANGES} - 1) q; \
             update chat_history.conversation set len = {EXCHANGES}, opening = {EXCHANGES} - 1, \
                messages = messages * {EXCHANGES}, bytes = bytes * {EXCHANGES}, media = media * {EXCHANGES}"
        ))
        .await
        .unwrap();
}

/// Returns the number of rows of some tables that this connection has read, and the number of scans of them.
async fn read_so_far(client: &tokio_postgres::Client, tables: &str) -> (i64, i64) {
    let counts = format!(
        "select sum(idx_tup_fetch)::bigint, sum(seq_scan)::bigint from pg_stat_xact_user_tables \
         where relname in ({tables})"
    );
    let row = client.query_one(&counts, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// Returns the number of rows of exchanges that a statement reads. All of them must be read by an index.
pub(crate) async fn rows(client: &tokio_postgres::Client, statement: &str) -> i64 {
    rows_of(client, "'exchange'", statement).await
}

/// Returns the number of rows of some tables that a statement reads. All of them must be read by an index.
pub(crate) async fn rows_of(client: &tokio_postgres::Client, tables: &str, statement: &str) -> i64 {
    // In one transaction, because PostgreSQL moves the counts elsewhere at its end.
    client.batch_execute("begin").await.unwrap();
    let before = read_so_far(client, tables).await;
    client.batch_execute(statement).await.unwrap();
    let after = read_so_far(client, tables).await;
    client.batch_execute("commit").await.unwrap();
    assert_eq!(after.1, before.1, "no scan of the table");
    after.0 - before.0
}

async fn a_long_log_is_read_no_further_than_the_limit() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("long");
    let incarnation = say(&store, &id, "x").await.revision.incarnation();
    long_log(&client).await;

    let limit = LoadLimit::new(60, usize::MAX).unwrap();
    let Loaded::Window(loaded) = store.load(&id, Load::new().limit(limit)).await.unwrap() else { unreachable!() };
    let first = Seq::new(EXCHANGES.unsigned_abs() - 30);
    assert_eq!((loaded.exchanges.len(), loaded.exchanges[0].seq, loaded.truncated), (30, first, true));

    let load =
        "select * from chat_history.load_1('test/long', 'default', null, null, 0, 0, 0, null, 60, 4000000, 0, 0)";
    // The log's first exchange is read, because the limit might include it. The exchanges of the newest turn are not
    // read to find the start of the window. One exchange beyond the limit is, and the first one within it, which opens
    // a turn.
    assert_eq!(rows(&client, load).await, 1 + 30 + 1 + 30);
    // The result does not depend on whether the tables were analyzed.
    client.batch_execute("analyze").await.unwrap();
    assert_eq!(rows(&client, load).await, 1 + 30 + 1 + 30);
    assert_eq!(window(&store, &id).await.exchanges.len(), 500, "a thousand messages by default");

    let newest = EXCHANGES - 3;
    let known = format!("'{incarnation}', {newest} + 1, 0, 0, 'e{newest}'");
    let added = load.replace("null, 0, 0, 0, null", &known).replace(", 0)", ", 1)");
    assert_eq!(rows(&client, &added).await, 1 + 2, "the newest known exchange, and those that were added");

    store.compact(&id, incarnation, compact(CompactionVersion::NONE, EXCHANGES.unsigned_abs() - 7)).await.unwrap();
    let compacted = window(&store, &id).await;
    assert_eq!((compacted.exchanges.len(), compacted.truncated), (7, false));
    assert_eq!(rows(&client, load).await, 1 + 7, "a window that the limit does not cut off");
    let recorded = load.replacen("null", "'e5'", 1);
    assert_eq!(rows(&client, &recorded).await, 2, "a recorded exchange is found by its id");
}

async fn a_page_is_read_no_further_than_its_limit() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("long");
    say(&store, &id, "x").await;
    long_log(&client).await;
    let page = store.read(&id, Seq::new(10), 5).await.unwrap();
    assert_eq!((page.exchanges.len(), page.exchanges[0].seq, page.more), (5, Seq::new(10), true));
    let read = "select * from chat_history.read_1('test/long', 10, 5, 4000000)";
    assert_eq!(rows(&client, read).await, 1 + 4 + 5);
}

async fn pages_end_by_size_but_have_at_least_one_exchange() {
    let url = database().await;
    let store = single(&url).await;
    let id = conversation("large");
    for _ in 0..5 {
        say(&store, &id, &"x".repeat(1_500_000)).await;
    }
    say(&store, &id, &"y".repeat(6_000_000)).await;
    assert_eq!(page_sizes(&store, &id, 100).await, [2, 2, 1, 1]);
    let beyond = store.read(&id, Seq::new(u64::MAX), 1).await.unwrap();
    assert!(beyond.exchanges.is_empty() && !beyond.more && beyond.revision.is_some());
}

/// The sums in the rows stay right.
async fn a_window_after_editing_is_within_its_limit() {
    let url = database().await;
    let store = single(&url).await;
    let id = conversation("a");
    let mut last = say(&store, &id, "0").await;
    for number in 1..12 {
        last = say(&store, &id, &number.to_string()).await;
    }
    store.truncate(&id, last.revision, Seq::new(8), None).await.unwrap();
    let repeat = append("8");
    last = store.append(&id, repeat.clone()).await.unwrap();
    // A duplicate is rolled back and does not change the sums.
    assert!(store.append(&id, repeat).await.unwrap().duplicate);
    let incarnation = last.revision.incarnation();
    let late = exchange("late").continuing(Seq::new(8));
    store.append(&id, Append::new(Expect::AnyIn(incarnation), late)).await.unwrap();
    store.prune(&id, incarnation, PruneTo::From(Seq::new(3)), Derived::Erase).await.unwrap();
    say(&store, &id, "10").await;
    for (messages, begins) in [(1, 10), (2, 10), (3, 10), (5, 10), (6, 8), (7, 8), (8, 7), (16, 3), (99, 3)] {
        let load = Load::new().limit(LoadLimit::new(messages, usize::MAX).unwrap());
        let Loaded::Window(window) = store.load(&id, load).await.unwrap() else { unreachable!() };
        let found = (window.exchanges[0].seq, window.exchanges.len(), window.truncated);
        assert_eq!(found, (Seq::new(begins), usize::try_from(11 - begins).unwrap(), begins > 3), "{messages}");
    }
}

/// As long as the page has room, an update of the conversation's row touches no index ("heap-only tuple").
async fn an_append_updates_no_index_of_its_conversation() {
    const APPENDS: i64 = 10;
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    say(&store, &conversation("a"), "one").await;
    let indexes = "select count(*) filter (where c.relname = 'exchange'), count(*) filter (where c.relname = 'conversation') \
                   from pg_index i join pg_class c on c.oid = i.indrelid \
                   where c.relnamespace = 'chat_history'::regnamespace";
    let row = client.query_one(indexes, &[]).await.unwrap();
    assert_eq!([row.get::<_, i64>(0), row.get(1)], [2, 2]);
    client.batch_execute("begin").await.unwrap();
    for number in 0..APPENDS {
        let append = format!(
            "select * from chat_history.append_1(null, 'test/a', 3, null, null, null, 0, gen_random_uuid(), 'x{number}', 0, null, 1, 1, 0, \
             'x', 0, 'recalled', 'provenance', null, 0, 0, '', null)"
        );
        client.batch_execute(&append).await.unwrap();
    }
    let updates = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'conversation'";
    let row = client.query_one(updates, &[]).await.unwrap();
    assert_eq!([row.get::<_, i64>(0), row.get(1)], [APPENDS, APPENDS]);
    client.batch_execute("rollback").await.unwrap();
}
