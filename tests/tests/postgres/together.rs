//! Calls that wait for a connection go together, and each is as good as alone.

use std::{pin::pin, time::Duration};

use deadpool_postgres::{Manager, Pool, Runtime};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join, join_all},
};
use libtest_mimic::Trial;
use tests::servers::test;
use tokio::{
    runtime,
    time::{self, Instant, timeout},
};
use tokio_postgres::NoTls;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, CompactionVersion, ConversationId, Expect, HistoryStore, Load, LoadLimit, Loaded,
    Seq, StoreError,
};
use tower_chat_history_postgres::{PostgresOptions, PostgresStore};

use crate::{
    limits::one_thread,
    proxy::Proxy,
    support::{
        append, compact, connect, conversation, database, exchange, say, single, texts, waits_for_a_lock, window,
    },
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("together::loads_that_wait_share_round_trips", loads_share_round_trips),
        test("together::appends_that_wait_share_round_trips", appends_share_round_trips),
        test("together::each_load_has_its_own_answer", each_load_has_its_own_answer),
        test("together::each_append_has_its_own_answer", each_append_has_its_own_answer),
        test("together::appends_to_one_conversation_follow_each_other", appends_to_one_conversation),
        test("together::of_appends_that_expect_the_same_revision_one_is_stored", one_is_stored),
        test("together::an_append_that_must_wait_for_a_lock_holds_up_no_other", a_lock_holds_up_no_other),
        test("together::one_that_fails_fails_no_other", one_that_fails_fails_no_other),
        test("together::a_lost_answer_doubles_nothing", a_lost_answer_doubles_nothing),
        test("together::who_has_left_is_not_served", who_has_left_is_not_served),
        test("together::large_appends_go_alone", large_appends_go_alone),
        test("together::what_a_standby_reads_is_no_answer", what_a_standby_reads_is_no_answer),
        test("together::settings_of_others_do_not_matter", settings_of_others),
        test("together::two_stores_do_not_get_in_each_others_way", do_not_get_in_each_others_way),
        Trial::test("together::who_waits_outlives_the_runtime_of_the_others", || {
            outlives_the_runtime_of_the_others();
            Ok(())
        }),
        Trial::test("together::nobody_waits_for_ever_for_the_runtime_of_another", || {
            does_not_wait_for_ever_for_the_runtime_of_another();
            Ok(())
        }),
        Trial::test("together::a_pool_that_does_not_wait_is_not_asked_for_ever", || {
            a_pool_that_does_not_wait();
            Ok(())
        }),
        Trial::test("together::nobody_waits_longer_for_a_connection_than_alone", || {
            nobody_waits_longer();
            Ok(())
        }),
    ]
}

/// Has these calls wait for the one connection that there is, and then lets them have it.
async fn at_once<'a, T>(store: &PostgresStore, calls: impl IntoIterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    let held = store.pool().get().await.unwrap();
    let mut calls: Vec<_> = calls.into_iter().collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none(), "the connection is held");
    }
    drop(held);
    join_all(calls).await
}

fn conversations(count: usize) -> Vec<ConversationId> {
    (0..count).map(|number| conversation(&format!("c{number}"))).collect()
}

async fn loads_share_round_trips() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(40);
    for id in &ids {
        say(&store, id, id.as_str()).await;
    }
    at_once(&store, ids.iter().take(2).map(|id| store.load(id, Load::new()))).await;
    proxy.trips();
    let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    assert_eq!(proxy.trips(), 3, "16, 16 and 8");
    for (id, loaded) in ids.iter().zip(loaded) {
        let Ok(Loaded::Window(window)) = loaded else { panic!("{loaded:?}") };
        assert_eq!(window.exchanges[0].exchange.messages[0].text(), id.as_str());
    }
}

async fn appends_share_round_trips() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(40);
    at_once(&store, ids.iter().take(2).map(|id| store.append(id, append("one")))).await;
    proxy.trips();
    let appended = at_once(&store, ids.iter().map(|id| store.append(id, append(id.as_str())))).await;
    assert_eq!(proxy.trips(), 3, "16, 16 and 8");
    for (number, (id, appended)) in ids.iter().zip(appended).enumerate() {
        assert_eq!(appended.unwrap().seq.get(), u64::from(number < 2));
        assert_eq!(texts(&store, id).await.last().unwrap(), id.as_str());
    }
}

async fn each_load_has_its_own_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let [absent, known, changed, recorded, cut] = ["absent", "known", "changed", "recorded", "cut"].map(conversation);
    for id in [&known, &changed, &recorded, &cut] {
        say(&store, id, "one").await;
    }
    let of = async |id| {
        let window = window(&store, id).await;
        Load::new().known(window.known())
    };
    let (of_known, of_changed) = (of(&known).await, of(&changed).await);
    say(&store, &changed, "two").await;
    let again = append("again");
    store.append(&recorded, again.clone()).await.unwrap();
    let (small, large) = ("small", "large".repeat(1000));
    say(&store, &cut, &large).await;
    say(&store, &cut, small).await;
    let little = LoadLimit::new(100, 1000).unwrap();
    let loads = [
        (&absent, Load::new()),
        (&known, of_known),
        (&changed, of_changed),
        (&recorded, Load::new().exchange(again.exchange.id.clone())),
        (&cut, Load::new().limit(little)),
        (&cut, Load::new()),
    ];
    let mut alone = Vec::new();
    for (id, load) in &loads {
        alone.push(store.load(id, load.clone()).await.unwrap());
    }
    assert!(matches!(&alone[0], Loaded::Absent));
    assert!(matches!(&alone[1], Loaded::Unchanged));
    assert!(matches!(&alone[2], Loaded::Window(window) if window.exchanges.len() == 2));
    assert!(matches!(&alone[3], Loaded::AlreadyRecorded(found) if found.exchange.id == again.exchange.id));
    assert!(matches!(&alone[4], Loaded::Window(window) if window.truncated && window.exchanges.len() == 1));
    assert!(matches!(&alone[5], Loaded::Window(window) if window.exchanges.len() == 3));
    at_once(&store, loads.iter().map(|(id, load)| store.load(id, load.clone()))).await;
    proxy.trips();
    let together = at_once(&store, loads.iter().map(|(id, load)| store.load(id, load.clone()))).await;
    assert_eq!(together.into_iter().map(Result::unwrap).collect::<Vec<_>>(), alone);
    assert_eq!(proxy.trips(), 1);
}

async fn each_append_has_its_own_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(8);
    let prepares = conversation("prepares");
    at_once(&store, ["x", "y"].map(|text| store.append(&prepares, append(text)))).await;
    let mut revisions = Vec::new();
    let again = append("again");
    for id in &ids[1..] {
        store.append(id, again.clone()).await.unwrap();
        revisions.push(say(&store, id, "two").await.revision);
    }
    let compacting = |at| append("three").compact(compact(CompactionVersion::NONE, at));
    let stale = window(&store, &ids[1]).await.revision;
    say(&store, &ids[1], "newer").await;
    let continues = exchange("no end").continuing(Seq::new(7));
    proxy.trips();
    let answers = at_once(
        &store,
        [
            store.append(&ids[0], append("first")),
            store.append(&ids[1], Append::new(Expect::Exactly(stale), exchange("stale"))),
            store.append(&ids[2], again),
            store.append(&ids[3], compacting(1)),
            store.append(&ids[4], compacting(99)),
            store.append(&ids[5], Append::new(Expect::AnyOrCreate, continues)),
            store.append(&ids[6], Append::new(Expect::Absent, exchange("there is one"))),
            store.append(&ids[7], Append::new(Expect::AnyIn(revisions[6].incarnation()), exchange("three"))),
        ],
    )
    .await;
    assert_eq!(proxy.trips(), 1);
    let [first, stale, again, cut, beyond, unknown, exists, any] = answers.try_into().unwrap();
    let stored = |answer: Result<Appended, StoreError>| (answer.as_ref().unwrap().duplicate, answer.unwrap().seq.get());
    assert_eq!(stored(first), (false, 0));
    assert!(matches!(stale, Err(StoreError::Conflict { .. })), "{stale:?}");
    assert_eq!(stored(again), (true, 0));
    assert!(matches!(cut.as_ref().unwrap().compaction, Some(CompactOutcome::Stored(_))), "{cut:?}");
    assert!(matches!(beyond, Err(StoreError::Compaction(_))), "{beyond:?}");
    assert!(matches!(unknown, Err(StoreError::ContinuesUnknown { len: 2, .. })), "{unknown:?}");
    assert!(matches!(exists, Err(StoreError::Conflict { .. })), "{exists:?}");
    assert_eq!(stored(any), (false, 2));
}

async fn appends_to_one_conversation() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let said: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    let appended = at_once(&store, said.iter().map(|text| store.append(&id, append(text)))).await;
    let positions: Vec<_> = appended.into_iter().map(|appended| appended.unwrap().seq.get()).collect();
    assert_eq!(positions, (0..20).collect::<Vec<_>>());
    assert_eq!(texts(&store, &id).await, said);
}

async fn one_is_stored() {
    let store = single(&database().await).await;
    let id = conversation("a");
    let revision = say(&store, &id, "one").await.revision;
    let same = || Append::new(Expect::Exactly(revision), exchange("two"));
    let answers = at_once(&store, (0..10).map(|_| store.append(&id, same()))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().flat_map(Result::as_ref).all(|answer| !answer.duplicate));
    assert_eq!(texts(&store, &id).await, ["one", "two"]);
}

async fn a_lock_holds_up_no_other() {
    let url = database().await;
    let (store, admin) = (PostgresOptions::new().connections(2).connect(&url).await.unwrap(), connect(&url).await);
    let ids = conversations(6);
    for id in &ids {
        say(&store, id, "one").await;
    }
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
    // The lock is still held, and the one that waits for it is waiting. Alone it does so for ten seconds.
    for appended in timeout(Duration::from_secs(6), join_all(appends)).await.unwrap() {
        assert_eq!(appended.unwrap().seq.get(), 1);
    }
    assert!((&mut waiting).now_or_never().is_none());
    admin.batch_execute("commit").await.unwrap();
    assert_eq!(waiting.await.unwrap().seq.get(), 1);
}

async fn one_that_fails_fails_no_other() {
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
    // A load fails by itself, too: what another one's record says does not matter.
    let damage = format!(
        "update chat_history.exchange set body = 'no record' \
         where conversation = (select id from chat_history.conversation where key = '{}')",
        ids[4]
    );
    admin.batch_execute(&damage).await.unwrap();
    let loads = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    for (number, loaded) in loads.iter().enumerate() {
        match loaded {
            Ok(loaded) => assert_eq!(matches!(loaded, Loaded::Absent), number == 2),
            Err(error) => assert!(number == 4 && matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
    }
}

async fn a_lost_answer_doubles_nothing() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(10);
    at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
    proxy.lose(1);
    let appended = at_once(&store, ids.iter().map(|id| store.append(id, append("two")))).await;
    assert!(proxy.has_lost());
    for (id, appended) in ids.iter().zip(appended) {
        let appended = appended.unwrap();
        assert_eq!((appended.seq.get(), appended.duplicate), (1, false), "it was this call that stored it");
        assert_eq!(texts(&store, id).await, ["one", "two"]);
    }
    at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    proxy.lose(1);
    let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
    assert!(proxy.has_lost() && loaded.iter().all(Result::is_ok), "{loaded:?}");
}

async fn who_has_left_is_not_served() {
    let store = single(&database().await).await;
    let ids = conversations(3);
    let held = store.pool().get().await.unwrap();
    let mut calls: Vec<_> = ids.iter().map(|id| store.append(id, append("one"))).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    drop(calls.remove(0));
    drop(held);
    join_all(calls).await;
    assert_eq!(store.load(&ids[0], Load::new()).await.unwrap(), Loaded::Absent);
    for id in &ids[1..] {
        assert_eq!(texts(&store, id).await, ["one"]);
    }
}

async fn large_appends_go_alone() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let ids = conversations(4);
    let large = "x".repeat(100_000);
    say(&store, &conversation("prepares"), "one").await;
    proxy.trips();
    at_once(&store, ids.iter().map(|id| store.append(id, append(&large)))).await;
    assert_eq!(proxy.trips(), 4);
    for id in &ids {
        assert_eq!(texts(&store, id).await, [&*large]);
    }
}

fn nobody_waits_longer() {
    const WAIT: Duration = Duration::from_secs(5);
    one_thread().block_on(async {
        let store = PostgresOptions::new().connections(1).wait(WAIT).connect(&database().await).await.unwrap();
        let ids = conversations(20);
        let held = store.pool().get().await.unwrap();
        time::pause();
        let began = Instant::now();
        let failed = join_all(ids.iter().map(|id| store.load(id, Load::new()))).await;
        assert!(failed.iter().all(|error| matches!(error, Err(StoreError::Unavailable { .. }))), "{failed:?}");
        assert!(began.elapsed() < WAIT + Duration::from_secs(1), "{:?}", began.elapsed());
        time::resume();
        drop(held);
        // Nobody is left in the line, and no place is.
        for loaded in at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await {
            assert_eq!(loaded.unwrap(), Loaded::Absent);
        }
    });
}

async fn settings_of_others() {
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
            let options = PostgresOptions::new().connections(1).prepare(prepare);
            let store = options.connect(&url).await.unwrap();
            let ids = conversations(5);
            let appended = at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
            assert!(appended.iter().all(Result::is_ok), "{setting}: {appended:?}");
            let loaded = at_once(&store, ids.iter().map(|id| store.load(id, Load::new()))).await;
            assert!(loaded.iter().all(|loaded| matches!(loaded, Ok(Loaded::Window(_)))), "{setting}: {loaded:?}");
        }
    }
}

/// A standby refuses a transaction that is to write, and would answer what comes after it.
async fn what_a_standby_reads_is_no_answer() {
    let (url, proxy) = (database().await, Proxy::new());
    let admin = connect(&url).await;
    let name: String = admin.query_one("select current_database()::text", &[]).await.unwrap().get(0);
    admin.batch_execute(&format!("alter database {name} set default_transaction_read_only = on")).await.unwrap();
    let options = PostgresOptions::new().connections(1).retry_for(Duration::ZERO);
    let store = options.connect(&proxy.url(&url)).await.unwrap();
    let ids = conversations(3);
    let load = || ids.iter().map(|id| store.load(id, Load::new()));
    at_once(&store, ids.iter().map(|id| store.append(id, append("one")))).await;
    proxy.refuse_to_begin(1);
    assert!(at_once(&store, load()).await.iter().all(Result::is_ok), "alone, on another connection");
    proxy.refuse_to_begin(usize::MAX);
    assert!(at_once(&store, load()).await.iter().all(Result::is_err));
}

/// On one thread, which whoever asks again and again would keep for itself.
fn a_pool_that_does_not_wait() {
    one_thread().block_on(async {
        let url = database().await;
        let manager = Manager::new(url.parse().unwrap(), NoTls);
        let pool = Pool::builder(manager).max_size(1).wait_timeout(Some(Duration::ZERO)).runtime(Runtime::Tokio1);
        let store = PostgresStore::with_pool(pool.build().unwrap()).await.unwrap();
        let _held = store.pool().get().await.unwrap();
        let ids = conversations(3);
        let failed = join_all(ids.iter().map(|id| store.load(id, Load::new()))).await;
        assert!(failed.iter().all(|error| matches!(error, Err(StoreError::Unavailable { .. }))), "{failed:?}");
    });
}

/// Both stores append to the same conversations, asked for in opposite order, and meet in the middle, which a third one holds.
///
/// Those in each other's way would give up after a while and go alone, which is right too, but costs a round trip each. A slow
/// machine may do that as well, but not each time.
async fn do_not_get_in_each_others_way() {
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
    // The statements are prepared, and the conversations are there.
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

fn outlives_the_runtime_of_the_others() {
    let runtime = || runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ids = conversations(2);
    let store = second.block_on(async { single(&database().await).await });
    let held = second.block_on(store.pool().get()).unwrap();
    // The one that came first waits for a connection on behalf of both.
    let mut of_first = store.append(&ids[0], append("one"));
    let mut of_second = store.append(&ids[1], append("one"));
    first.block_on(async { assert!((&mut of_first).now_or_never().is_none()) });
    second.block_on(async { assert!((&mut of_second).now_or_never().is_none()) });
    first.shutdown_timeout(Duration::from_secs(60));
    drop(held);
    second.block_on(async {
        assert_eq!(of_first.await.unwrap().seq.get(), 0);
        assert_eq!(of_second.await.unwrap().seq.get(), 0);
    });
}

fn does_not_wait_for_ever_for_the_runtime_of_another() {
    let (idle, second) = (one_thread(), runtime::Builder::new_multi_thread().enable_all().build().unwrap());
    let ids = conversations(2);
    let store = second.block_on(async {
        let options = PostgresOptions::new().connections(1).wait(Duration::from_millis(300));
        options.connect(&database().await).await.unwrap()
    });
    let held = second.block_on(store.pool().get()).unwrap();
    let mut of_idle = store.append(&ids[0], append("one"));
    let mut of_second = store.append(&ids[1], append("one"));
    idle.block_on(async { assert!((&mut of_idle).now_or_never().is_none()) });
    second.block_on(async { assert!((&mut of_second).now_or_never().is_none()) });
    drop(held);
    // The connection is free, and the runtime that was to fetch it does nothing.
    assert_eq!(second.block_on(of_second).unwrap().seq.get(), 0);
    assert_eq!(idle.block_on(of_idle).unwrap().seq.get(), 0);
}
