//! The cost of a call depends on the window, not on the log.

use tower_chat_history_conformance::shorthand::page_sizes;
use tower_chat_history_core::{
    CompactOutcome, CompactionVersion, HistoryStore, KnownState, Load, LoadLimit, Loaded, Seq,
};
use tower_chat_history_sqlite::{SqliteOptions, SqliteStore, Stats, Synchronous};

use crate::support::{TestDatabase, append, compact, conversation, enqueue, exchange, say};

const EXCHANGES: u64 = 50_000;

/// Creates a log of 100,000 messages.
async fn long_log(database: &TestDatabase) -> SqliteStore {
    let store = SqliteOptions::new().synchronous(Synchronous::Normal).open(&database.path).await.unwrap();
    let id = conversation("long");
    for _ in 0..EXCHANGES / 500 {
        let calls: Vec<_> = (0..500).map(|_| enqueue(store.append(&id, append("x")))).collect();
        for call in calls {
            call.await.unwrap();
        }
    }
    store
}

/// Returns the rows and exchanges that a call read.
fn cost(before: Stats, after: Stats) -> (u64, u64) {
    (after.rows_read - before.rows_read, after.exchanges_read - before.exchanges_read)
}

#[tokio::test]
async fn a_load_of_a_long_log_reads_no_further_than_the_limit() {
    let database = TestDatabase::new();
    let store = long_log(&database).await;
    let id = conversation("long");

    let before = store.stats();
    let limit = LoadLimit::new(60, usize::MAX).unwrap();
    let Loaded::Window(window) = store.load(&id, Load::new().limit(limit)).await.unwrap() else { unreachable!() };
    assert_eq!(window.exchanges.len(), 30);
    assert_eq!(window.exchanges[0].seq, Seq::new(EXCHANGES - 30));
    assert!(window.truncated);
    assert_eq!(cost(before, store.stats()), (31, 30), "one row beyond the limit, without its body");

    let before = store.stats();
    let Loaded::Window(default) = store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
    assert_eq!(default.exchanges.len(), 500, "a thousand messages by default");
    assert_eq!(cost(before, store.stats()), (501, 500));

    // A compaction also bounds the walk.
    let stored =
        store.compact(&id, window.revision.incarnation(), compact("default", EXCHANGES - 7, None)).await.unwrap();
    assert!(matches!(stored, CompactOutcome::Stored(_)));
    let before = store.stats();
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
    assert_eq!((window.exchanges.len(), window.truncated), (7, false));
    assert_eq!(cost(before, store.stats()), (7, 7));

    // An unchanged, a recorded and an absent conversation are found without a walk.
    let before = store.stats();
    let recorded = window.exchanges[3].exchange.id.clone();
    assert_eq!(store.load(&id, Load::new().known(window.known())).await.unwrap(), Loaded::Unchanged);
    assert!(store.load(&conversation("none"), Load::new()).await.unwrap().is_absent());
    assert_eq!(cost(before, store.stats()), (0, 0));
    let loaded = store.load(&id, Load::new().known(window.known()).exchange(recorded)).await.unwrap();
    assert_eq!(loaded, Loaded::AlreadyRecorded(window.exchanges[3].clone()));
    assert_eq!(cost(before, store.stats()), (0, 1));

    let before = store.stats();
    let page = store.read(&id, Seq::new(10), 5).await.unwrap();
    assert_eq!((page.exchanges.len(), page.exchanges[0].seq, page.more), (5, Seq::new(10), true));
    assert_eq!(cost(before, store.stats()), (5, 5));
}

#[tokio::test]
async fn a_turn_is_one_read_and_one_write() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    let first = say(&store, &id, "one").await;
    let before = store.stats();
    store.load(&id, Load::new()).await.unwrap();
    say(&store, &id, "two").await;
    let after = store.stats();
    assert_eq!((after.reads - before.reads, after.transactions - before.transactions), (1, 1));
    let stale = KnownState { revision: first.revision, compaction: CompactionVersion::NONE, newest: None };
    assert!(matches!(store.load(&id, Load::new().known(stale)).await.unwrap(), Loaded::Window(_)));
}

#[tokio::test]
async fn a_page_is_bounded_by_size_but_has_at_least_one_exchange() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("large");
    for _ in 0..5 {
        say(&store, &id, &"x".repeat(1_500_000)).await;
    }
    say(&store, &id, &"y".repeat(6_000_000)).await;
    assert_eq!(page_sizes(&store, &id, 100).await, [2, 2, 1, 1]);
    let beyond = store.read(&id, Seq::new(u64::MAX), 1).await.unwrap();
    assert!(beyond.exchanges.is_empty() && !beyond.more && beyond.revision.is_some());
    assert!(store.read(&id, Seq::FIRST, 0).await.unwrap().more);
}

#[tokio::test]
async fn a_large_turn_is_loaded_whole() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let id = conversation("a");
    say(&store, &id, "before").await;
    let opening = say(&store, &id, &"x ".repeat(1_500_000)).await;
    let mut last = opening;
    for _ in 0..3 {
        let next = exchange(&"y ".repeat(1_000_000)).continuing(last.seq);
        let append = tower_chat_history_core::Append::new(
            tower_chat_history_core::Expect::AnyIn(last.revision.incarnation()),
            next,
        );
        last = store.append(&id, append).await.unwrap();
    }
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { unreachable!() };
    assert_eq!((window.exchanges.len(), window.truncated), (4, true));
}
