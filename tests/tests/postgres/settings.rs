//! What the role, the database and other sessions do to their settings and locks does not matter.

use futures_util::{FutureExt as _, future::join_all};
use libtest_mimic::Trial;
use tests::servers::test;
use tokio_postgres::Client;
use tower_chat_history_core::{CompactionVersion, HistoryStore, Keep, Prune, Seq, StoreError, Traces, Truncate};
use tower_chat_history_postgres::{PostgresError, PostgresOptions, PostgresStore};

use crate::{
    cost::{long_log, rows},
    proxy::Proxy,
    support::{append, compact, connect, conversation, database, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("settings::a_stricter_isolation_level_refuses_no_append", a_stricter_isolation_level),
        test("settings::a_role_that_only_reads_by_default_can_write", reads_by_default),
        test("settings::names_of_others_are_not_taken_for_postgresqls", names_of_others),
        test("settings::a_plan_made_for_small_tables_serves_large_ones", a_plan_made_for_small_tables),
        test("settings::a_lock_is_waited_for_for_a_time", a_lock_is_waited_for_for_a_time),
        test("settings::a_replica_that_freezes_holds_a_conversation_for_seconds", a_replica_that_freezes),
    ]
}

/// A database in which each session begins with that.
async fn database_with(setting: &str) -> String {
    let url = database().await;
    let client = connect(&url).await;
    let name: String = client.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    client.batch_execute(&format!("alter database {name} set {setting}")).await.unwrap();
    url
}

/// Makes every call.
async fn use_all(store: &PostgresStore) {
    let id = conversation("all");
    let first = say(store, &id, "one").await;
    store.append(&id, append("two").compact(compact(CompactionVersion::NONE, 1))).await.unwrap();
    let incarnation = first.revision.incarnation();
    store.compact(&id, incarnation, compact(CompactionVersion::new(1), 1)).await.unwrap();
    let last = say(store, &id, "three").await;
    assert_eq!(texts(store, &id).await, ["one", "two", "three"]);
    assert_eq!(window(store, &id).await.exchanges.len(), 2);
    store.truncate(&id, last.revision, Seq::new(2)).await.unwrap();
    let incarnation = window(store, &id).await.revision.incarnation();
    store.prune(&id, incarnation, Keep::LastTurns(1), Traces::Remove).await.unwrap();
    assert_eq!(texts(store, &id).await, ["two"]);
    store.delete(&id).await.unwrap();
}

async fn a_stricter_isolation_level() {
    const TASKS: usize = 4;
    const TURNS: usize = 25;
    for level in ["serializable", "repeatable read"] {
        let url = database_with(&format!("default_transaction_isolation = '{level}'")).await;
        let options = PostgresOptions::new().connections(TASKS).retry_for(std::time::Duration::ZERO);
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
        assert!(store.append(&id, append("x").compact(compact(CompactionVersion::NONE, 999))).await.is_err());
        assert_eq!(texts(&store, &id).await.len(), TASKS * TURNS, "what is refused is undone");
    }
}

async fn reads_by_default() {
    let url = database_with("default_transaction_read_only = on").await;
    use_all(&single(&url).await).await;
    use_all(&PostgresOptions::new().schema("other").prepare(false).connect(&url).await.unwrap()).await;
}

async fn names_of_others() {
    let url = database_with("search_path = evil, pg_catalog").await;
    let evil = "create schema evil; create type evil.text as enum (); create type evil.uuid as enum (); \
                create table evil.conversation (x int); create table evil.exchange (x int); \
                create function evil.no(bigint, bigint) returns boolean language sql as 'select 1 / 0 = 0'; \
                create function evil.no(pg_catalog.text, pg_catalog.text) returns boolean language sql as 'select 1 / 0 = 0'; \
                create function evil.no(name, pg_catalog.text) returns boolean language sql as 'select 1 / 0 = 0'; \
                create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.no); \
                create operator evil.= (leftarg = pg_catalog.text, rightarg = pg_catalog.text, function = evil.no); \
                create operator evil.= (leftarg = name, rightarg = pg_catalog.text, function = evil.no)";
    connect(&url).await.batch_execute(evil).await.unwrap();
    use_all(&single(&url).await).await;
    use_all(&single(&url).await).await;
}

async fn a_plan_made_for_small_tables() {
    let url = database().await;
    let (store, other) = (single(&url).await, connect(&url).await);
    let id = conversation("long");
    say(&store, &id, "x").await;
    // Nobody analyzes them later: plans stay as they are made now.
    let small = "alter table chat_history.exchange set (autovacuum_enabled = off); analyze";
    other.batch_execute(small).await.unwrap();
    let load = "select * from chat_history.load_1('test/long', 'default', 'none', null, 0, 0, 0, 60, 4000000)";
    let read = "select * from chat_history.read_1('test/long', 10, 5, 4000000)";
    let append = |number: usize| {
        format!(
            "select * from chat_history.append_1('test/long', 3, null, null, gen_random_uuid(), 'n{number}', null, 2, 10, \
             'x', null, 0, 0, 0, 0, 0, '')"
        )
    };
    // The store's own connection, whose session keeps the plans.
    let client = store.pool().get().await.unwrap();
    let compact = "select r_verdict from chat_history.compact_1('test/long', (select incarnation from chat_history.conversation), \
                   'default', 0, 0, 0, 0, 0, '')";
    for _ in 0..3 {
        client.batch_execute(&format!("begin; {load}; {read}; {}; {compact}; rollback", append(0))).await.unwrap();
    }
    long_log(&other).await;
    assert_eq!(rows(&client, load).await, 30 + 1 + 30);
    assert_eq!(rows(&client, read).await, 1 + 4 + 5);
    assert_eq!(rows(&client, &compact.replace("0, 0, 0, 0, ''", "50000, 0, 0, 0, ''")).await, 1);
    assert_eq!(rows(&client, &append(1)).await, 0);
    assert_eq!(rows(&client, &append(1)).await, 3, "a repetition: it is undone, and found");
}

async fn locks(client: &Client) {
    client.batch_execute("begin; select 1 from chat_history.conversation for update").await.unwrap();
}

async fn a_lock_is_waited_for_for_a_time() {
    let url = database().await;
    let options = PostgresOptions::new().connections(1).retry_for(std::time::Duration::ZERO);
    let (store, other) = (options.connect(&url).await.unwrap(), connect(&url).await);
    let id = conversation("a");
    let incarnation = say(&store, &id, "one").await.revision.incarnation();
    let limited = "select count(*) from pg_proc where pronamespace = 'chat_history'::regnamespace \
                   and provolatile = 'v' and proname <> 'put_compaction_1' and 'lock_timeout=10s' = any (proconfig)";
    assert_eq!(other.query_one(limited, &[]).await.unwrap().get::<_, i64>(0), 3);
    for (function, types) in [
        (
            "append_1",
            "text, int, uuid, bigint, uuid, text, bigint, bigint, bigint, text, text, bigint, bigint, bigint, bigint, \
                      bigint, text",
        ),
        ("compact_1", "text, uuid, text, bigint, bigint, bigint, bigint, bigint, text"),
        ("delete_1", "text"),
    ] {
        let shorter = format!("alter function chat_history.{function}({types}) set lock_timeout = '20ms'");
        other.batch_execute(&shorter).await.unwrap();
    }
    locks(&other).await;
    for error in [
        store.append(&id, append("two")).await.unwrap_err(),
        store.compact(&id, incarnation, compact(CompactionVersion::NONE, 0)).await.unwrap_err(),
        store.delete(&id).await.unwrap_err(),
    ] {
        let StoreError::Unavailable { source } = &error else { panic!("{error:?}") };
        let found = source.downcast_ref();
        assert!(matches!(found, Some(PostgresError::Sql { code, .. }) if code.code() == "55P03"), "{error:?}");
    }
    assert_eq!(window(&store, &id).await.exchanges.len(), 1, "reading waits for nobody");
}

async fn a_replica_that_freezes() {
    let (url, proxy) = (database().await, Proxy::new());
    let (frozen, store) = (single(&proxy.url(&url)).await, single(&url).await);
    let id = conversation("a");
    let revision = say(&store, &id, "one").await.revision;
    // What a truncation asks is prepared now; the row is locked by its second request then.
    let elsewhere = conversation("b");
    let other = say(&frozen, &elsewhere, "x").await.revision;
    frozen.truncate(&elsewhere, other, Seq::new(1)).await.unwrap();
    let locked = "select 1 from chat_history.conversation where key = 'test/a' for update nowait";
    let watcher = connect(&url).await;
    proxy.freeze(2);
    let mut truncate = std::pin::pin!(frozen.truncate(&id, revision, Seq::new(0)));
    assert!((&mut truncate).now_or_never().is_none());
    while watcher.query(locked, &[]).await.is_ok() {}
    say(&store, &id, "two").await;
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}
