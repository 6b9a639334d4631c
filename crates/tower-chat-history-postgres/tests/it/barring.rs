//! First turns that are running while their conversations are erased.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use futures_util::future::join_all;
use libtest_mimic::Trial;
use test_servers::trials;
use tokio::task::JoinHandle;
use tower_chat_history_core::{
    Append, ConversationId, Epoch, Erase, Expect, HistoryStore, List, Load, Loaded, Removed, StoreError,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    erasing::{erase_all, erase_pages, prefix},
    support::{connect, conversation, database, exchange, patient, say, single, texts, waits_for_a_lock},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        an_erasure_waits_for_first_turns_that_are_being_stored,
        a_first_turn_waits_for_an_erasure_that_is_being_recorded,
        a_batch_of_first_turns_waits_for_an_erasure_that_is_being_recorded,
        an_erasure_of_everything_waits_for_all_first_turns,
        other_tenants_and_later_turns_do_not_wait_for_an_erasure,
        no_first_turn_from_before_an_erasure_survives_it,
        forgotten_erasures_refuse_older_turns,
    ]
}

pub(crate) async fn epoch(store: &PostgresStore, id: &ConversationId) -> Epoch {
    let Loaded::Absent(epoch) = store.load(id, Load::new()).await.unwrap() else { panic!("{id} exists") };
    epoch
}

fn first_turn(epoch: Epoch) -> Append {
    Append::new(Expect::AnyOrCreate, exchange("first")).since(Some(epoch))
}

/// The call of a first turn in another session, whose transaction stays open.
fn storing(key: &str) -> String {
    format!(
        "begin; select * from chat_history.append_1(null, '{key}', 3, null, null, 0, 0, gen_random_uuid(), 'x', 0, null, \
         1, 1, 0, 'x', null, null, null, null, 0, 0, '', null)"
    )
}

pub(crate) fn spawn_erasure(store: &PostgresStore, under: &str) -> JoinHandle<Removed> {
    let (store, under) = (store.clone(), prefix(under));
    tokio::spawn(async move { erase_all(&store, &under).await })
}

/// Waits until a call waits for a lock. The call must not end before.
pub(crate) async fn waits<T: std::fmt::Debug>(call: &mut JoinHandle<T>, watcher: &tokio_postgres::Client) {
    tokio::select! {
        ended = call => panic!("the call did not wait: {ended:?}"),
        _ = waits_for_a_lock(watcher, &[]) => {}
    }
}

async fn an_erasure_waits_for_first_turns_that_are_being_stored() {
    let url = database().await;
    let store = patient().connections(2).connect(&url).await.unwrap();
    let (other, watcher) = (connect(&url).await, connect(&url).await);
    for under in ["test/a", "test", ""] {
        // The number is that of the erasures before.
        let since = epoch(&store, &conversation("a")).await.get();
        let storing = storing("test/a").replace("null, null, 0, 0,", &format!("null, null, {since}, 0,"));
        other.batch_execute(&storing).await.unwrap();
        let mut erasure = spawn_erasure(&store, under);
        waits(&mut erasure, &watcher).await;
        other.batch_execute("commit").await.unwrap();
        assert_eq!(erasure.await.unwrap().conversations, 1, "{under}");
        assert!(store.load(&conversation("a"), Load::new()).await.unwrap().is_absent());
    }
}

async fn a_first_turn_waits_for_an_erasure_that_is_being_recorded() {
    let url = database().await;
    let store = patient().connections(2).connect(&url).await.unwrap();
    let (other, watcher) = (connect(&url).await, connect(&url).await);
    let id = conversation("a");
    for erased in ["test/a", "test/a/", "test/", "/"] {
        let first = first_turn(epoch(&store, &id).await);
        other.batch_execute(&format!("begin; select chat_history.bar_1('{erased}')")).await.unwrap();
        let (appending, of_call) = (store.clone(), id.clone());
        let mut appended = tokio::spawn(async move { appending.append(&of_call, first).await });
        waits(&mut appended, &watcher).await;
        other.batch_execute("commit").await.unwrap();
        let appended = appended.await.unwrap();
        assert!(matches!(appended, Err(StoreError::Gone)), "{erased}: {appended:?}");
        assert!(store.load(&id, Load::new()).await.unwrap().is_absent());
    }
}

/// A batch has locked other conversations, so it does not wait. Its calls are repeated alone.
async fn a_batch_of_first_turns_waits_for_an_erasure_that_is_being_recorded() {
    let url = database().await;
    let (store, other, watcher) = (single(&url).await, connect(&url).await, connect(&url).await);
    let ids: Vec<_> = ["a", "b", "c"].map(conversation).into();
    let known = epoch(&store, &ids[0]).await;
    other.batch_execute("begin; select chat_history.bar_1('test/b')").await.unwrap();
    let held = store.pool().get().await.unwrap();
    let appends = ids.iter().map(|id| {
        let (store, id) = (store.clone(), id.clone());
        tokio::spawn(async move { store.append(&id, first_turn(known)).await })
    });
    let appends: Vec<_> = appends.collect();
    while store.pool().status().waiting == 0 {
        tokio::task::yield_now().await;
    }
    drop(held);
    waits_for_a_lock(&watcher, &[]).await;
    other.batch_execute("commit").await.unwrap();
    for (id, appended) in ids.iter().zip(join_all(appends).await) {
        let appended = appended.unwrap();
        assert_eq!(matches!(appended, Err(StoreError::Gone)), *id == ids[1], "{id}: {appended:?}");
        assert_eq!(appended.is_ok(), *id != ids[1], "{id}: {appended:?}");
    }
}

/// Tenants whose locks differ.
async fn tenants_apart(client: &tokio_postgres::Client) -> [String; 2] {
    let locks = "select name from (select 'tenant-' || n as name, hashtext('tenant-' || n) & 63 as lock, n \
                 from generate_series(0, 99) n) tenants \
                 where lock <> (select hashtext('tenant-0') & 63) or n = 0 order by n limit 2";
    let rows = client.query(locks, &[]).await.unwrap();
    [rows[0].get(0), rows[1].get(0)]
}

async fn an_erasure_of_everything_waits_for_all_first_turns() {
    let url = database().await;
    let (store, watcher) = (single(&url).await, connect(&url).await);
    let tenants = tenants_apart(&watcher).await;
    let others = [connect(&url).await, connect(&url).await];
    for (other, tenant) in others.iter().zip(&tenants) {
        other.batch_execute(&storing(&format!("{tenant}/a"))).await.unwrap();
    }
    let mut erasure = spawn_erasure(&store, "");
    for other in &others {
        waits(&mut erasure, &watcher).await;
        other.batch_execute("commit").await.unwrap();
    }
    assert_eq!(erasure.await.unwrap().conversations, 2);
}

async fn other_tenants_and_later_turns_do_not_wait_for_an_erasure() {
    let url = database().await;
    let (store, other) = (single(&url).await, connect(&url).await);
    let [one, two] = tenants_apart(&other).await.map(|tenant| ConversationId::new([&*tenant, "a"]).unwrap());
    say(&store, &one, "one").await;
    let known = epoch(&store, &two).await;
    other.batch_execute(&format!("begin; select chat_history.bar_1('{one}')")).await.unwrap();
    store.append(&two, first_turn(known)).await.unwrap();
    say(&store, &one, "two").await;
    assert_eq!(texts(&store, &one).await, ["one", "two"]);
    other.batch_execute("commit").await.unwrap();
}

/// Many sessions store first turns while others erase. Each conversation that exists after an erasure was created by a
/// call that saw the erasure.
async fn no_first_turn_from_before_an_erasure_survives_it() {
    const WRITERS: usize = 6;
    const ROUNDS: usize = 40;
    let url = database().await;
    let store = patient().connections(4).connect(&url).await.unwrap();
    let eraser = single(&url).await;
    let running = Arc::new(AtomicBool::new(true));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (store, running) = (store.clone(), Arc::clone(&running));
            tokio::spawn(async move {
                let (mut stored, mut refused) = (0, 0);
                while running.load(Relaxed) {
                    // A few ids, so that calls race for the same one.
                    let id = ConversationId::new(["test", &format!("{}", (writer + stored) % 9)]).unwrap();
                    let Loaded::Absent(epoch) = store.load(&id, Load::new()).await.unwrap() else {
                        stored += 1;
                        continue;
                    };
                    let text = epoch.get().to_string();
                    let append = Append::new(Expect::AnyOrCreate, exchange(&text)).since(Some(epoch));
                    match store.append(&id, append).await {
                        Ok(_) => stored += 1,
                        Err(StoreError::Gone) => refused += 1,
                        Err(error) => panic!("{error:?}"),
                    }
                }
                refused
            })
        })
        .collect();
    // Each first turn takes longer after it has read the erasures.
    let slow = "create function public.slow() returns trigger language plpgsql as \
                    $$ begin perform pg_sleep(0.003); return new; end $$; \
                create trigger slow before insert on chat_history.exchange for each row execute function public.slow()";
    connect(&url).await.batch_execute(slow).await.unwrap();
    let unused = conversation("unused");
    for round in 0..ROUNDS {
        let under = prefix(["test", "", "test"][round % 3]);
        eraser.bar(&under).await.unwrap();
        let barred = epoch(&eraser, &unused).await;
        erase_pages(&eraser, &under).await;
        for entry in eraser.list(&under, None, 100).await.unwrap().conversations {
            for text in texts(&eraser, &entry.id).await {
                assert!(text.parse::<u64>().unwrap() >= barred.get(), "{text} after {barred:?}");
            }
        }
    }
    running.store(false, Relaxed);
    let refused: usize = join_all(writers).await.into_iter().map(Result::unwrap).sum();
    assert!(refused > 0, "calls raced");
}

async fn forgotten_erasures_refuse_older_turns() {
    let url = database().await;
    let (store, client) = (single(&url).await, connect(&url).await);
    let id = conversation("other");
    let oldest = epoch(&store, &id).await;
    store.bar(&prefix("a")).await.unwrap();
    let older = epoch(&store, &id).await;
    let many = "insert into chat_history.erasure \
                select sha256(convert_to('many/' || n || '/', 'UTF8')), n from generate_series(2, 100000) n; \
                update chat_history.epoch set newest = 100000, kept = 100000";
    client.batch_execute(many).await.unwrap();
    // An erasure of a known prefix forgets none.
    store.bar(&prefix("many/7")).await.unwrap();
    store.append(&id, first_turn(oldest)).await.unwrap();
    store.delete(&id).await.unwrap();
    let refused = store.append(&id, first_turn(oldest)).await;
    assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
    let id = conversation("another");
    let refused = store.append(&id, first_turn(oldest)).await;
    assert!(matches!(refused, Err(StoreError::Gone)), "{refused:?}");
    store.append(&id, first_turn(older)).await.unwrap();
    let kept = "select count(*), (select kept from chat_history.epoch) from chat_history.erasure";
    let row = client.query_one(kept, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100_000, 100_000));
}
