//! The store does not depend on settings of the role, the database and other sessions.

use std::time::Duration;

use futures_util::future::join_all;
use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history_core::{
    Append, CompactionVersion, ConversationId, Derived, Epoch, Erase, Expect, Fork, ForkTo, HistoryStore, Labels,
    LabelsVersion, List, Load, Loaded, Prefix, Prune, PruneTo, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::{PostgresError, PostgresStore};

use crate::{
    cost::{long_log, rows},
    proxy::Proxy,
    support::{append, compact, connect, conversation, database, exchange, patient, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        appends_succeed_with_stricter_isolation_levels,
        a_role_that_is_read_only_by_default_can_write,
        a_connection_to_a_standby_is_replaced,
        planted_names_do_not_replace_those_of_postgresql,
        a_plan_for_small_tables_is_right_for_large_ones,
    ]
}

/// Creates a database in which each session begins with this setting.
async fn database_with(setting: &str) -> String {
    let url = database().await;
    let client = connect(&url).await;
    let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    client.batch_execute(&format!("alter database {name} set {setting}")).await.unwrap();
    url
}

/// Makes every call of a store.
pub(crate) async fn use_all(store: &PostgresStore) {
    let id = conversation("all");
    let first = say(store, &id, "one").await;
    store.append(&id, append("two").compact(compact(CompactionVersion::NONE, 1))).await.unwrap();
    let incarnation = first.revision.incarnation();
    store.compact(&id, incarnation, compact(CompactionVersion::new(1), 1)).await.unwrap();
    let copy = conversation("all-copied");
    let to = ForkTo::new(copy.clone(), Seq::new(1)).since(Some(Epoch::FIRST));
    assert!(store.fork(&id, incarnation, to.clone().since(None)).await.unwrap().revision.is_some());
    store.delete(&copy).await.unwrap();
    assert!(store.fork(&id, incarnation, to).await.is_err());
    let last = say(store, &id, "three").await;
    assert_eq!(texts(store, &id).await, ["one", "two", "three"]);
    assert_eq!(window(store, &id).await.exchanges.len(), 2);
    store.truncate(&id, last.revision, Seq::new(2), None).await.unwrap();
    let incarnation = window(store, &id).await.revision.incarnation();
    store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await.unwrap();
    assert_eq!(texts(store, &id).await, ["two"]);
    list_and_erase(store, &id).await;
    store.delete(&id).await.unwrap();
}

/// Makes the calls that list and erase conversations.
async fn list_and_erase(store: &PostgresStore, id: &ConversationId) {
    let (incarnation, under) = (window(store, id).await.revision.incarnation(), Prefix::from(id));
    let title = Labels::new([("title", "x")]).unwrap();
    store.set_labels(id, incarnation, LabelsVersion::NONE, title).await.unwrap();
    let listed = store.list(&under, None, 9).await.unwrap().conversations;
    assert_eq!(Some(&listed[0]), store.describe(id).await.unwrap().as_ref());
    assert_eq!(store.count(&under).await.unwrap().total().labels, 1);
    assert!(store.erase_if(id, listed[0].revision).await.unwrap().is_some());
    let Loaded::Absent(epoch) = store.load(id, Load::new()).await.unwrap() else { unreachable!() };
    store.append(id, append("one").since(Some(epoch)).beginning_at(Seq::new(7))).await.unwrap();
    store.bar(&under).await.unwrap();
    assert!(store.append(id, append("late").since(Some(epoch))).await.is_err());
    assert_eq!(store.erase(&under, None, 9).await.unwrap().removed.total().exchanges, 1);
}

async fn appends_succeed_with_stricter_isolation_levels() {
    const TASKS: usize = 4;
    const TURNS: usize = 25;
    for level in ["serializable", "repeatable read"] {
        let url = database_with(&format!("default_transaction_isolation = '{level}'")).await;
        let options = patient().connections(TASKS).retry_for(Duration::ZERO);
        let store = options.connect(&url).await.unwrap();
        use_all(&store).await;
        let id = conversation("a");
        let talk = async |task| {
            for turn in 0..TURNS {
                say(&store, &id, &format!("{task}/{turn}")).await;
            }
        };
        join_all((0..TASKS).map(talk)).await;
        assert_eq!(texts(&store, &id).await.len(), TASKS * TURNS);
        assert!(store.append(&id, Append::new(Expect::Absent, exchange("x"))).await.is_err());
        assert_eq!(texts(&store, &id).await.len(), TASKS * TURNS, "a refused append is rolled back");
    }
}

async fn a_role_that_is_read_only_by_default_can_write() {
    let url = database_with("default_transaction_read_only = on").await;
    use_all(&single(&url).await).await;
    use_all(&patient().schema("other").prepare(false).connect(&url).await.unwrap()).await;
}

/// A standby answers 0A000 to the begin of a transaction that writes.
async fn a_connection_to_a_standby_is_replaced() {
    let url = database_with("default_transaction_read_only = on").await;
    let proxy = Proxy::new();
    let options = patient().connections(1).retry_for(Duration::ZERO);
    let store = options.connect(&proxy.url(&url)).await.unwrap();
    let id = conversation("a");
    let revision = say(&store, &id, "one").await.revision;
    let session = "select pg_backend_pid()";
    let before: i32 = store.pool().get().await.unwrap().query_one(session, &[]).await.unwrap().get(0);
    proxy.refuse_to_begin(1);
    assert_eq!(window(&store, &id).await.exchanges.len(), 1);
    let after: i32 = store.pool().get().await.unwrap().query_one(session, &[]).await.unwrap().get(0);
    assert_ne!(before, after, "another connection may lead to the primary");
    proxy.refuse_to_begin(usize::MAX);
    for error in [
        store.load(&id, Load::new()).await.unwrap_err(),
        store.truncate(&id, revision, Seq::new(0), None).await.unwrap_err(),
    ] {
        let StoreError::Unavailable { source } = &error else { panic!("{error:?}") };
        let found = source.downcast_ref();
        assert!(matches!(found, Some(PostgresError::Sql { code, .. }) if code.code() == "25006"), "{error:?}");
    }
}

async fn planted_names_do_not_replace_those_of_postgresql() {
    let url = database_with("search_path = evil, pg_catalog").await;
    let evil = "create schema evil; create type evil.text as enum (); create type evil.uuid as enum (); \
                create table evil.conversation (x int); create table evil.exchange (x int); \
                create function evil.no(bigint, bigint) returns boolean language sql as 'select 1 / 0 = 0'; \
                create function evil.no(pg_catalog.text, pg_catalog.text) returns boolean language sql as 'select 1 / 0 = 0'; \
                create function evil.no(name, pg_catalog.text) returns boolean language sql as 'select 1 / 0 = 0'; \
                create function evil.no(pg_catalog.uuid, pg_catalog.uuid) returns boolean language sql as 'select 1 / 0 = 0'; \
                create operator evil.= (leftarg = pg_catalog.uuid, rightarg = pg_catalog.uuid, function = evil.no); \
                create operator evil.<> (leftarg = pg_catalog.uuid, rightarg = pg_catalog.uuid, function = evil.no); \
                create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.no); \
                create operator evil.= (leftarg = pg_catalog.text, rightarg = pg_catalog.text, function = evil.no); \
                create operator evil.= (leftarg = name, rightarg = pg_catalog.text, function = evil.no)";
    connect(&url).await.batch_execute(evil).await.unwrap();
    use_all(&single(&url).await).await;
    use_all(&single(&url).await).await;
}

async fn a_plan_for_small_tables_is_right_for_large_ones() {
    let url = database().await;
    let (store, other) = (single(&url).await, connect(&url).await);
    let id = conversation("long");
    say(&store, &id, "x").await;
    // The tables are not analyzed later, so that plans stay as they are made now.
    let small = "alter table chat_history.exchange set (autovacuum_enabled = off); analyze";
    other.batch_execute(small).await.unwrap();
    let load =
        "select * from chat_history.load_1('test/long', 'default', 'none', null, 0, 0, 0, null, 60, 4000000, 0, 0)";
    let read = "select * from chat_history.read_1('test/long', 10, 5, 4000000)";
    let append = |number: usize| {
        format!(
            "select * from chat_history.append_1(null, 'test/long', 3, null, null, null, 0, gen_random_uuid(), 'n{number}', 0, null, 2, 10, 0, \
             'x', null, null, null, null, 0, 0, '', null)"
        )
    };
    // The store's own connection, whose session caches the plans.
    let client = store.pool().get().await.unwrap();
    let compact = "select r_compacted from chat_history.compact_1('test/long', (select incarnation from chat_history.conversation), \
                   gen_random_uuid(), 'default', 0, 50000, '', null)";
    let fork = "select * from chat_history.fork_1('test/long', (select incarnation from chat_history.conversation), 'test/copy', \
                gen_random_uuid(), 7, null, 0, null, null, 0, '', null)";
    for _ in 0..3 {
        client
            .batch_execute(&format!("begin; {load}; {read}; {}; {compact}; {fork}; rollback", append(0)))
            .await
            .unwrap();
    }
    long_log(&other).await;
    assert_eq!(rows(&client, load).await, 1 + 30 + 1 + 30);
    assert_eq!(rows(&client, read).await, 1 + 4 + 5);
    assert_eq!(rows(&client, compact).await, 0);
    assert_eq!(rows(&client, &append(1)).await, 0);
    assert_eq!(rows(&client, &append(1)).await, 3, "a repeated append is rolled back, and its exchange is read");
    assert_eq!(rows(&client, fork).await, 2 + 7);
}
