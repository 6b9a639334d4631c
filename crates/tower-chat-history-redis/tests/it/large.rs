//! Large calls, of which only a few run at a time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, future::join_all};
use libtest_mimic::Trial;
use redis::{
    Cmd, RedisResult, Value,
    aio::{ConnectionLike as _, MultiplexedConnection},
};
use test_servers::trials;
use tokio::{sync::Semaphore, task::yield_now};
use tower_chat_history_core::{Append, ConversationId, Expect, HistoryStore, Load, Loaded, Page, Seq, StoreError};
use tower_chat_history_redis::{RedisOptions, RedisStore};

use crate::support::{
    Intercept, Intercepted, PATIENCE, TestServer, compact, conversation, exchange, intercepted, multiplexed, patient,
    recall, say, texts, window,
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        large_windows_delay_only_large_calls,
        large_appends_delay_only_large_calls,
        a_large_call_waits_no_longer_than_calls_are_repeated,
        a_large_call_that_is_not_polled_keeps_no_permit,
        a_large_call_that_is_dropped_gives_up_its_place,
        a_conversation_may_be_deleted_between_the_two_scripts,
        a_call_that_is_not_large_is_one_script,
        a_large_read_is_two_scripts,
        a_window_is_large_if_its_summary_is,
        a_window_is_large_if_its_recalled_messages_are,
    ]
}

/// The largest size of a call that is not large, in bytes.
const MAX_SMALL: usize = 256 << 10;
/// The number of large calls that run at a time.
const AT_A_TIME: usize = 4;
/// The longest time that a call waits for a permit, where a test measures it.
const RETRY_FOR: Duration = Duration::from_secs(1);

/// Holds calls after their answers, if command or answer is large.
#[derive(Clone)]
struct Holding {
    held: Arc<AtomicUsize>,
    most_held: Arc<AtomicUsize>,
    released: Arc<Semaphore>,
}

impl Holding {
    async fn new(test: &TestServer, options: RedisOptions) -> (Self, RedisStore) {
        let connection = multiplexed(&test.server).await;
        let released = Arc::new(Semaphore::new(0));
        let holding = Self { held: Arc::default(), most_held: Arc::default(), released };
        let store = options.over(Intercepted { connection, intercept: holding.clone() }).await.unwrap();
        (holding, store)
    }

    /// Waits until as many calls are held as may run.
    async fn is_full(&self) {
        while self.held.load(SeqCst) < AT_A_TIME {
            yield_now().await;
        }
    }

    async fn hold(&self) {
        self.most_held.fetch_max(self.held.fetch_add(1, SeqCst) + 1, SeqCst);
        self.released.acquire().await.unwrap().forget();
        self.held.fetch_sub(1, SeqCst);
    }
}

fn bytes(value: &Value) -> usize {
    match value {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(bytes).sum(),
        _ => 0,
    }
}

impl Intercept for Holding {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let answer = connection.req_packed_command(command).await;
        if command.get_packed_command().len() > MAX_SMALL || bytes(answer.as_ref().unwrap()) > MAX_SMALL {
            self.hold().await;
        }
        answer
    }
}

/// Makes large calls in many conversations, and a short turn in another one while as many of them run as may.
async fn check_that_a_short_turn_overtakes(large: impl AsyncFn(&RedisStore, &ConversationId), ids: &[ConversationId]) {
    let test = TestServer::new().await;
    let (holding, store) = Holding::new(&test, patient()).await;
    let short = conversation("short");
    say(&test.store, &short, "one").await;
    for id in ids {
        say(&test.store, id, &"x".repeat(MAX_SMALL)).await;
    }
    let calls = join_all(ids.iter().map(|id| large(&store, id)));
    let overtaking = async {
        holding.is_full().await;
        say(&store, &short, "two").await;
        assert_eq!(texts(&store, &short).await, ["one", "two"]);
        holding.released.add_permits(ids.len());
    };
    tokio::join!(calls, overtaking);
    assert_eq!((holding.most_held.load(SeqCst), holding.released.available_permits()), (AT_A_TIME, 0));
}

fn many() -> Vec<ConversationId> {
    (0..3 * AT_A_TIME).map(|number| conversation(&format!("large-{number}"))).collect()
}

async fn large_windows_delay_only_large_calls() {
    let load = async |store: &RedisStore, id: &ConversationId| assert_eq!(window(store, id).await.exchanges.len(), 1);
    check_that_a_short_turn_overtakes(load, &many()).await;
}

async fn large_appends_delay_only_large_calls() {
    let append = async |store: &RedisStore, id: &ConversationId| drop(say(store, id, &"y".repeat(MAX_SMALL)).await);
    check_that_a_short_turn_overtakes(append, &many()).await;
}

/// Appends a large exchange to each of as many conversations as large calls run at a time.
async fn fill(store: &RedisStore) -> Vec<ConversationId> {
    let ids: Vec<_> = many().into_iter().take(AT_A_TIME).collect();
    for id in &ids {
        say(store, id, &"x".repeat(MAX_SMALL)).await;
    }
    ids
}

async fn a_large_call_waits_no_longer_than_calls_are_repeated() {
    let test = TestServer::new().await;
    let (holding, store) = Holding::new(&test, patient().retry_for(RETRY_FOR)).await;
    let ids = fill(&test.store).await;
    let held = join_all(ids.iter().map(|id| window(&store, id)));
    let waiting = async {
        holding.is_full().await;
        let began = Instant::now();
        let error = store.load(&ids[0], Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        let waited = began.elapsed();
        // The answers may take much longer.
        assert!((RETRY_FOR..PATIENCE / 2).contains(&waited), "{waited:?}");
        holding.released.add_permits(AT_A_TIME);
    };
    tokio::join!(held, waiting);
}

async fn a_large_call_that_is_not_polled_keeps_no_permit() {
    let test = TestServer::new().await;
    let (holding, store) = Holding::new(&test, patient()).await;
    let ids = fill(&test.store).await;
    let mut calls = join_all(ids.iter().map(|id| window(&store, id)));
    tokio::select! {
        _ = &mut calls => panic!("their answers are held"),
        () = holding.is_full() => {}
    }
    // From here on they are not polled. The permits are for them, and for the calls after them.
    holding.released.add_permits(2 * AT_A_TIME);
    for id in &ids {
        window(&store, id).await;
    }
    calls.await;
}

async fn a_large_call_that_is_dropped_gives_up_its_place() {
    let test = TestServer::new().await;
    let (holding, store) = Holding::new(&test, patient()).await;
    let ids = fill(&test.store).await;
    let held = join_all(ids.iter().map(|id| window(&store, id)));
    let dropped = async {
        holding.is_full().await;
        let text = "y".repeat(MAX_SMALL);
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(say(&store, &ids[0], &text))).collect();
        for call in &mut waiting {
            assert!(call.now_or_never().is_none());
        }
        drop(waiting);
        // For the calls that run, and for the one after them.
        holding.released.add_permits(AT_A_TIME + 1);
    };
    tokio::join!(held, dropped);
    assert_eq!(window(&store, &ids[0]).await.exchanges.len(), 1);
    assert_eq!(holding.released.available_permits(), 0);
}

/// Deletes the conversation after the first answer that says that another one would be large.
#[derive(Clone)]
struct Deleting {
    other: RedisStore,
    id: ConversationId,
}

impl Intercept for Deleting {
    async fn send(&mut self, connection: &mut MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
        let answer = connection.req_packed_command(command).await?;
        if answer == Value::Array(vec![Value::BulkString(b"large".to_vec())]) {
            self.other.delete(&self.id).await.unwrap();
        }
        Ok(answer)
    }
}

async fn a_conversation_may_be_deleted_between_the_two_scripts() {
    let test = TestServer::new().await;
    let id = conversation("deleted");
    say(&test.store, &id, &"x".repeat(MAX_SMALL)).await;
    let store = intercepted(&test.server, Deleting { other: test.store.clone(), id: id.clone() }).await;
    assert!(matches!(store.load(&id, Load::new()).await.unwrap(), Loaded::Absent(_)));
    say(&test.store, &id, &"x".repeat(MAX_SMALL)).await;
    assert_eq!(store.read(&id, Seq::FIRST, 9).await.unwrap(), Page::absent());
}

/// Returns the number of scripts that each kind of read takes. The records that it reads have this size in bytes.
async fn scripts(size: usize) -> [u64; 3] {
    let mut test = TestServer::new().await;
    let store = test.store.clone();
    let id = conversation("sized");
    let exchange = exchange(&"x".repeat(size - exchange("").bytes()));
    assert_eq!(exchange.bytes(), size);
    store.append(&id, Append::new(Expect::AnyOrCreate, exchange.clone())).await.unwrap();
    let mut counts = [0; 3];
    for _ in 0..2 {
        // The second round finds all scripts on the server.
        for (read, count) in counts.iter_mut().enumerate() {
            test.run::<()>(&["CONFIG", "RESETSTAT"]);
            match read {
                0 => assert_eq!(window(&store, &id).await.exchanges.len(), 1),
                1 => assert_eq!(store.read(&id, Seq::FIRST, 9).await.unwrap().exchanges.len(), 1),
                _ => {
                    let load = Load::new().exchange(exchange.id.clone());
                    assert!(matches!(store.load(&id, load).await.unwrap(), Loaded::AlreadyRecorded(_)));
                }
            }
            *count = test.calls("evalsha");
        }
    }
    counts
}

async fn a_call_that_is_not_large_is_one_script() {
    // The record of an exchange has more bytes than its messages.
    assert_eq!(scripts(MAX_SMALL).await, [1, 1, 2]);
    assert_eq!(scripts(MAX_SMALL - 1_000).await, [1; 3]);
}

async fn a_large_read_is_two_scripts() {
    assert_eq!(scripts(MAX_SMALL + 1).await, [2; 3]);
}

async fn a_window_is_large_if_its_summary_is() {
    let mut test = TestServer::new().await;
    let id = conversation("summarized");
    say(&test.store, &id, "one").await;
    for (size, scripts) in [(MAX_SMALL / 2, 1), (MAX_SMALL, 2)] {
        let window_now = window(&test.store, &id).await;
        let compact = compact(window_now.compaction_version(), 0, Some(&"s".repeat(size)));
        test.store.compact(&id, window_now.revision.incarnation(), compact).await.unwrap();
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        assert_eq!(window(&test.store, &id).await.compaction.unwrap().derived.unwrap().len(), size);
        assert_eq!(test.calls("evalsha"), scripts);
    }
}

async fn a_window_is_large_if_its_recalled_messages_are() {
    let mut test = TestServer::new().await;
    let id = conversation("recalled");
    for (size, scripts) in [(MAX_SMALL / 2, 1), (MAX_SMALL, 2)] {
        recall(&test.store, &id, &"r".repeat(size), &[]).await;
        // The first load also sends the script.
        window(&test.store, &id).await;
        test.run::<()>(&["CONFIG", "RESETSTAT"]);
        window(&test.store, &id).await;
        assert_eq!(test.calls("evalsha"), scripts);
    }
}
