//! A failing or waiting call does not affect the other calls of its batch.

use std::{pin::pin, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{join, join_all},
};
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::time::timeout;
use tower_chat_history_core::{ConversationId, HistoryStore, Load, Loaded, StoreError};
use tower_chat_history_postgres::PostgresStore;

use super::{at_once, conversations};
use crate::{
    proxy::Proxy,
    support::{append, connect, database, patient, say, single, texts, waits_for_a_lock},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_append_that_waits_for_a_lock_delays_no_other_call,
        a_failing_call_fails_no_other_call,
        a_lost_answer_stores_nothing_twice,
        batches_work_with_other_settings,
        reads_of_a_standby_are_not_used,
        batches_of_two_stores_do_not_deadlock,
    ]
}

async fn an_append_that_waits_for_a_lock_delays_no_other_call() {
    let url = database().await;
    let (store, admin) = (patient().connections(2).connect(&url).await.unwrap(), connect(&url).await);
    let ids = conversations(6);
    for id in &ids {
        say(&store, id, "one").await;
    }
    // A single append waits for almost as long as a call may take. A batch waits for less time.
    admin.batch_execute("alter function chat_history.append_1 set lock_timeout = '50s'").await.unwrap();
    let locked = &ids[3];
    let lock = format!("begin; select 1 from chat_history.conversation where key = '{locked}' for update");
    admin.batch_execute(&lock).await.unwrap();
    let also_held = store.pool().get().await.unwrap();
    let held = store.pool().get().await.unwrap();
    let mut waiting = pin!(store.append(locked, append("two")));
    assert!((&mut waiting).now_or_never().is_none());
    let others: Vec<_> = ids.iter().filter(|id| *id != locked).collect();
    let mut appends: Vec<_> = others.iter().map(|id| store.append(id, append("two"))).collect();
    for append in &mut appends {
        assert!(append.now_or_never().is_none());
    }
    drop((held, also_held));
    // The lock is still held, and one append waits for it.
    for appended in timeout(Duration::from_secs(30), join_all(appends)).await.unwrap() {
        assert_eq!(appended.unwrap().seq.get(), 1);
    }
    assert!((&mut waiting).now_or_never().is_none());
    admin.batch_execute("commit").await.unwrap();
    assert_eq!(waiting.await.unwrap().seq.get(), 1);
}

async fn a_failing_call_fails_no_other_call() {
    let url = database().await;
    let (store, admin) = (single(&url).await, connect(&url).await);
    let ids = conversations(6);
    let refuse = "alter table chat_history.exchange add constraint no check (position('unwelcome' in body) = 0)";
    admin.batch_execute(refuse).await.unwrap();
    let texts_of = |number| if number == 2 { "unwelcome" } else { "welcome" };
    let appends = ids.iter().enumerate().map(|(number, id)| store.append(id, append(texts_of(number))));
    for (number, answer) in at_once(&store, appends).await.into_iter().enumerate() {
        assert_eq!(answer.is_err(), number == 2, "{answer:?}");
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(texts(&store, id).await.len(), usize::from(number != 2));
    }
    // A load also fails alone: a damaged record of another load does not affect it.
    let damage = format!(
        "update chat_history.exchange set body = 'no record' \
         where conversation = (select id from chat_history.conversation where key = '{}')",
        ids[4]
    );
    admin.batch_execute(&damage).await.unwrap();
    let loads = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    for (number, loaded) in loads.iter().enumerate() {
        match loaded {
            Ok(loaded) => assert_eq!(loaded.is_absent(), number == 2),
            Err(error) => assert!(number == 4 && matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
    }
}

async fn a_lost_answer_stores_nothing_twice() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(10);
    at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
    proxy.lose(1);
    let appended = at_once(&store, ids.iter().map(|id| store.append(id, append("two")))).await;
    assert!(proxy.has_lost());
    for (id, appended) in ids.iter().zip(appended) {
        let appended = appended.unwrap();
        assert_eq!((appended.seq.get(), appended.duplicate), (1, false), "this call stored it");
        assert_eq!(texts(&store, id).await, ["one", "two"]);
    }
    at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    proxy.lose(1);
    let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    assert!(proxy.has_lost() && loaded.iter().all(Result::is_ok), "{loaded:?}");
}

async fn batches_work_with_other_settings() {
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "enable_nestloop = off",
        "search_path = evil, pg_catalog",
    ] {
        let url = database().await;
        let admin = connect(&url).await;
        let name: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let evil = "create schema evil; create function evil.unnest(anyarray) returns int language sql as 'select 1 / 0'; \
                    create function evil.no(bigint, bigint) returns boolean language sql as 'select 1 / 0 = 0'; \
                    create operator evil.= (leftarg = bigint, rightarg = bigint, function = evil.no)";
        admin.batch_execute(&format!("{evil}; alter database {name} set {setting}")).await.unwrap();
        for prepare in [true, false] {
            let options = patient().connections(1).prepare(prepare);
            let store = options.connect(&url).await.unwrap();
            let ids = conversations(5);
            let appended = at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
            assert!(appended.iter().all(Result::is_ok), "{setting}: {appended:?}");
            let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
            assert!(loaded.iter().all(|loaded| matches!(loaded, Ok(Loaded::Window(_)))), "{setting}: {loaded:?}");
        }
    }
}

/// A standby refuses the begin of a transaction that writes, and would execute the statements after it.
async fn reads_of_a_standby_are_not_used() {
    let (url, proxy) = (database().await, Proxy::new());
    let admin = connect(&url).await;
    let name: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    admin.batch_execute(&format!("alter database {name} set default_transaction_read_only = on")).await.unwrap();
    let options = patient().connections(1).retry_for(Duration::ZERO);
    let store = options.connect(&proxy.url(&url)).await.unwrap();
    let ids = conversations(3);
    let load = || ids.iter().map(|id| store.load(id, Load::new()));
    at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
    proxy.refuse_to_begin(1);
    assert!(at_once(&store, load()).await.iter().all(Result::is_ok), "alone, on another connection");
    proxy.refuse_to_begin(usize::MAX);
    assert!(at_once(&store, load()).await.iter().all(Result::is_err));
}

/// Two stores append to the same conversations in opposite order, and both wait for a lock on the one in the
/// middle.
///
/// Stores that block each other would give up after some time and send the calls one by one. That is also
/// correct, but costs a round trip for each call. It may happen on a slow machine, but not every time.
async fn batches_of_two_stores_do_not_deadlock() {
    const ROUNDS: usize = 20;
    let url = database().await;
    let (admin, watcher) = (connect(&url).await, connect(&url).await);
    let proxies = [Proxy::new(), Proxy::new()];
    let stores = [single(&proxies[0].url(&url)).await, single(&proxies[1].url(&url)).await];
    let ids = conversations(9);
    let reversed: Vec<_> = ids.iter().rev().cloned().collect();
    let all = async |store: &PostgresStore, ids: &[ConversationId]| {
        let appended = at_once(store, ids.iter().map(|id| store.append(id, append("x")))).await;
        assert!(appended.iter().all(Result::is_ok), "{appended:?}");
    };
    // Prepare the statements and create the conversations.
    all(&stores[0], &ids).await;
    all(&stores[1], &ids).await;
    let lock = format!("begin; select 1 from chat_history.conversation where key = '{}' for update", ids[4]);
    let mut trips = Vec::new();
    for _ in 0..ROUNDS {
        admin.batch_execute(&lock).await.unwrap();
        for proxy in &proxies {
            proxy.trips();
        }
        let release = async {
            let first = waits_for_a_lock(&watcher, &[]).await;
            waits_for_a_lock(&watcher, &[first]).await;
            admin.batch_execute("commit").await.unwrap();
        };
        join(join(all(&stores[0], &ids), all(&stores[1], &reversed)), release).await;
        trips.push(proxies.each_ref().map(Proxy::trips));
    }
    assert!(trips.contains(&[1, 1]), "{trips:?}");
    assert_eq!(texts(&stores[0], &ids[0]).await.len(), 2 * (ROUNDS + 1));
}
