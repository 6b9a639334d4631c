//! `MemoryStore`: its limit, and parallel threads.

use std::sync::Arc;

use tower_chat_history::{
    ConversationId, Exchange, ExchangeId, HistoryStore, HistoryStoreExt, MemoryStore, Message, StoreError,
    store::{
        Append, Compact, CompactionVersion, Cut, Cuts, Expect, Fork, ForkError, ForkTo, Forked, Incarnation, Labels,
        Load, Loaded, Profile, Seq, Summary,
    },
};

use tower_chat_history_core::{Erase, List, Prefix};

fn id(name: impl AsRef<str>) -> ConversationId {
    ConversationId::new(["memory", name.as_ref()]).unwrap()
}

/// Returns an exchange whose message has this many bytes of JSON.
fn sized(bytes: usize) -> Exchange {
    let frame = Message::user("").bytes();
    let exchange = Exchange::new(ExchangeId::generate(), [Message::user("x".repeat(bytes - frame))]);
    assert_eq!(exchange.bytes(), bytes);
    exchange
}

async fn append(store: &MemoryStore, id: &ConversationId, exchange: Exchange) -> Result<(), StoreError> {
    store.append(id, Append::new(Expect::AnyOrCreate, exchange)).await.map(drop)
}

#[tokio::test]
async fn clones_share_the_conversations() {
    let (store, id) = (MemoryStore::new(), id("a"));
    let clone = store.clone();
    append(&store, &id, sized(100)).await.unwrap();
    assert_eq!(clone.conversation(&id).messages().await.unwrap().len(), 1);
    assert_eq!((clone.used(), clone.limit()), (store.used(), MemoryStore::DEFAULT_LIMIT));
    assert!(MemoryStore::new().conversation(&id).messages().await.unwrap().is_empty());
}

/// Returns the size of a store with one such exchange, and the size that one more exchange adds.
async fn sizes(exchange: impl Fn() -> Exchange) -> (usize, usize) {
    let store = MemoryStore::new();
    append(&store, &id("a"), exchange()).await.unwrap();
    let first = store.used();
    append(&store, &id("a"), exchange()).await.unwrap();
    (first, store.used() - first)
}

#[tokio::test]
async fn a_full_store_refuses_appends_and_keeps_everything() {
    let (first, more) = sizes(|| sized(400)).await;
    let store = MemoryStore::with_limit(2 * first + more);
    let (a, b, c) = (id("a"), id("b"), id("c"));
    append(&store, &a, sized(400)).await.unwrap();
    append(&store, &b, sized(400)).await.unwrap();
    for id in [&a, &c] {
        let full = append(&store, id, sized(100_000)).await.unwrap_err();
        let StoreError::Full { used, requested, limit } = full else { panic!("{full:?}") };
        assert_eq!((used, limit), (2 * first, store.limit()));
        assert!(requested > 100_000, "{requested}");
    }
    assert!(store.conversation(&c).messages().await.unwrap().is_empty());
    append(&store, &a, sized(400)).await.unwrap();
    assert_eq!(store.used(), store.limit());
    assert!(matches!(append(&store, &a, sized(400)).await, Err(StoreError::Full { .. })));
    assert_eq!(store.conversation(&a).messages().await.unwrap().len(), 2);

    store.delete(&b).await.unwrap();
    assert_eq!(store.used(), first + more);
    append(&store, &c, sized(400)).await.unwrap();
    assert_eq!(store.used(), 2 * first + more);

    // Truncation also frees memory, including the first exchange.
    store.conversation(&a).truncate(Seq::new(1)).await.unwrap();
    assert_eq!(store.used(), 2 * first);
    store.conversation(&a).take_last().await.unwrap();
    assert_eq!(store.used(), first);

    // Pruning also frees memory.
    for _ in 0..2 {
        append(&store, &c, sized(400)).await.unwrap();
    }
    store.conversation(&c).keep_last_turns(2).await.unwrap();
    assert_eq!(store.used(), first + more);
}

#[tokio::test]
async fn a_full_store_still_reports_duplicates_and_conflicts() {
    let (first, _) = sizes(|| sized(100)).await;
    let (store, id) = (MemoryStore::with_limit(first), id("a"));
    let exchange = sized(100);
    append(&store, &id, exchange.clone()).await.unwrap();
    let again = store.append(&id, Append::new(Expect::Absent, exchange)).await.unwrap();
    assert!(again.duplicate);
    let conflict = store.append(&id, Append::new(Expect::Absent, sized(100))).await.unwrap_err();
    assert!(matches!(conflict, StoreError::Conflict { .. }), "{conflict:?}");
    let gone = store.append(&id, Append::new(Expect::AnyIn(Incarnation::random()), sized(100))).await.unwrap_err();
    assert!(matches!(gone, StoreError::Gone), "{gone:?}");
    assert_eq!(store.used(), first);
}

#[tokio::test]
async fn a_limit_of_zero_refuses_every_message() {
    let store = MemoryStore::with_limit(0);
    let refused = append(&store, &id("a"), sized(100)).await.unwrap_err();
    let StoreError::Full { used: 0, requested, limit: 0 } = refused else { panic!("{refused:?}") };
    assert!(requested > 100);
}

fn compact(profile: usize, replaces: CompactionVersion, summary: usize) -> Compact {
    let mut cut = Cut::default();
    cut.set_summary(Summary::new("s".repeat(summary)), Seq::FIRST);
    Cuts::new(cut).compact(Profile::new(format!("profile-{profile}")).unwrap(), replaces).unwrap()
}

#[tokio::test]
async fn compactions_count_for_the_limit_until_they_are_replaced() {
    let (store, id) = (MemoryStore::with_limit(100_000), id("a"));
    append(&store, &id, sized(100)).await.unwrap();
    let bare = store.used();
    let incarnation = store.conversation(&id).revision().await.unwrap().unwrap().incarnation();
    let none = CompactionVersion::NONE;
    store.compact(&id, incarnation, compact(0, none, 10_000)).await.unwrap();
    let one = store.used();
    assert!((10_000..11_000).contains(&(one - bare)), "{}", one - bare);
    store.compact(&id, incarnation, compact(0, none.next(), 40_000)).await.unwrap();
    assert_eq!(store.used(), one + 30_000);
    store.compact(&id, incarnation, compact(0, none.next().next(), 10_000)).await.unwrap();
    assert_eq!(store.used(), one);
    // The limit also bounds the profiles of one conversation, and the summary of an append.
    let mut profiles = 1;
    let full = loop {
        match store.compact(&id, incarnation, compact(profiles, none, 10_000)).await {
            Ok(_) => profiles += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, StoreError::Full { .. }) && profiles == 9, "{profiles} {full}");
    let with_append = Append::new(Expect::AnyOrCreate, sized(100)).compact(compact(100, none, 10_000));
    assert!(matches!(store.append(&id, with_append).await, Err(StoreError::Full { .. })));
    assert_eq!(store.conversation(&id).len().await.unwrap(), 1);
    store.conversation(&id).clear().await.unwrap();
    assert_eq!(store.used(), 0);
}

#[tokio::test]
async fn forks_count_for_the_limit_until_they_are_deleted() {
    let (first, more) = sizes(|| sized(400)).await;
    let store = MemoryStore::with_limit(2 * (first + more));
    let (a, b, c) = (id("a"), id("b"), id("c"));
    append(&store, &a, sized(400)).await.unwrap();
    append(&store, &a, sized(400)).await.unwrap();
    let incarnation = store.conversation(&a).revision().await.unwrap().unwrap().incarnation();
    let labeled = ForkTo::new(b.clone(), Seq::new(2)).labels(Labels::new([("title", "x")]).unwrap());
    let full = store.fork(&a, incarnation, labeled.clone()).await;
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!((store.used(), store.conversation(&b).revision().await.unwrap()), (first + more, None));
    assert_eq!(store.list(&Prefix::all(), None, 9).await.unwrap().conversations.len(), 1);

    store.fork(&a, incarnation, ForkTo::new(b.clone(), Seq::new(2))).await.unwrap();
    assert_eq!(store.used(), store.limit());
    let full = store.fork(&a, incarnation, ForkTo::new(c.clone(), Seq::new(1))).await;
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    assert_eq!(store.fork(&a, incarnation, ForkTo::new(c, Seq::FIRST)).await.unwrap(), Forked::new(None));
    store.conversation(&b).truncate(Seq::new(1)).await.unwrap();
    assert_eq!(store.used(), 2 * first + more);
    store.delete(&a).await.unwrap();
    assert_eq!((store.used(), store.conversation(&b).messages().await.unwrap().len()), (first, 1));
    store.delete(&b).await.unwrap();
    assert_eq!(store.used(), 0);
}

/// Runs this many tasks on their own threads, and waits for all of them.
async fn on_threads<F: Future<Output = ()> + Send + 'static>(count: usize, task: impl Fn(usize) -> F) {
    let tasks: Vec<_> = (0..count).map(|n| tokio::spawn(task(n))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

const THREADS: usize = 8;
const APPENDS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_appends_to_one_conversation_are_all_stored() {
    let (store, id) = (MemoryStore::new(), id("shared"));
    on_threads(THREADS, |thread| {
        let (store, id) = (store.clone(), id.clone());
        async move {
            for n in 0..APPENDS {
                let messages = [Message::user(format!("{thread} {n}")), Message::assistant("ok")];
                append(&store, &id, Exchange::new(ExchangeId::generate(), messages)).await.unwrap();
            }
        }
    })
    .await;
    let log = store.conversation(&id).exchanges().await.unwrap();
    assert_eq!(log.len(), THREADS * APPENDS);
    assert!(log.iter().enumerate().all(|(at, recorded)| recorded.seq.get() == at as u64));
    // Each thread's own appends are in the order in which it made them.
    let mut next = [0; THREADS];
    for recorded in &log {
        let text = recorded.exchange.messages[0].text();
        let (thread, n) = text.split_once(' ').unwrap();
        let thread: usize = thread.parse().unwrap();
        assert_eq!(n.parse(), Ok(next[thread]));
        next[thread] += 1;
    }
    store.delete(&id).await.unwrap();
    assert_eq!(store.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_appends_at_a_revision_are_stored_once_each() {
    let (store, id) = (MemoryStore::new(), id("strict"));
    on_threads(THREADS, |_| {
        let (store, id) = (store.clone(), id.clone());
        async move {
            let mut expect = Expect::Absent;
            for _ in 0..APPENDS / 10 {
                let exchange = sized(100);
                loop {
                    match store.append(&id, Append::new(expect, exchange.clone())).await {
                        Ok(appended) => {
                            assert!(!appended.duplicate);
                            break expect = Expect::Exactly(appended.revision);
                        }
                        Err(StoreError::Conflict { current: Some(current) }) => expect = Expect::Exactly(current),
                        Err(other) => panic!("expected a conflict, got {other:?}"),
                    }
                }
            }
        }
    })
    .await;
    assert_eq!(store.conversation(&id).exchanges().await.unwrap().len(), THREADS * APPENDS / 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_fills_and_deletions_keep_count_and_limit() {
    let store = MemoryStore::with_limit(10_000);
    let ids: Arc<[ConversationId]> = (0..4).map(|n| id(n.to_string())).collect();
    on_threads(THREADS, |thread| {
        let (store, ids) = (store.clone(), Arc::clone(&ids));
        async move {
            for n in 0..APPENDS {
                let id = &ids[(thread + n) % ids.len()];
                match append(&store, id, sized(100 + n % 50)).await {
                    Ok(()) => {}
                    Err(StoreError::Full { used, requested, limit }) => assert!(used + requested > limit),
                    Err(other) => panic!("expected it to be full, got {other:?}"),
                }
                assert!(store.used() <= store.limit());
                if n % 7 == thread % 7 {
                    store.delete(id).await.unwrap();
                }
            }
        }
    })
    .await;
    let mut stored = 0;
    for id in ids.iter() {
        let log = store.conversation(id).exchanges().await.unwrap();
        stored += log.iter().map(|recorded| recorded.exchange.bytes()).sum::<usize>();
        store.delete(id).await.unwrap();
    }
    assert!(stored <= store.limit());
    assert_eq!(store.used(), 0);
}

/// Each fork locks two conversations, and the threads take them in different orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_forks_in_all_directions_do_not_wait_for_each_other_forever() {
    let store = MemoryStore::new();
    let ids: Arc<[ConversationId]> = (0..5).map(|n| id(n.to_string())).collect();
    on_threads(THREADS, |thread| {
        let (store, ids) = (store.clone(), Arc::clone(&ids));
        async move {
            for n in 0..APPENDS {
                let [from, to] = [thread + n, thread + 3 * n + 1].map(|at| &ids[at % ids.len()]);
                append(&store, from, sized(100)).await.unwrap();
                let before = Seq::new(n as u64 % 9 + 1);
                match store.conversation(from).fork(before, to).await {
                    Ok(copied) => assert!(copied <= before.get()),
                    Err(ForkError::Exists | ForkError::Store(StoreError::Gone)) => {}
                    Err(other) => panic!("expected a refusal, got {other:?}"),
                }
                if n % 3 == thread % 3 {
                    store.delete(to).await.unwrap();
                }
            }
        }
    })
    .await;
    for id in ids.iter() {
        let log = store.conversation(id).exchanges().await.unwrap();
        assert!(log.iter().zip(0..).all(|(recorded, at)| recorded.seq == Seq::new(at)));
        store.delete(id).await.unwrap();
    }
    assert_eq!(store.used(), 0);
}

/// A fork copies a long log while an erasure of the copy begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_forks_from_before_an_erasure_leave_nothing() {
    let store = MemoryStore::new();
    let (log, under): (ConversationId, Prefix) = ("log".parse().unwrap(), "memory".parse().unwrap());
    for _ in 0..APPENDS {
        append(&store, &log, sized(100)).await.unwrap();
    }
    let used = store.used();
    let incarnation = store.conversation(&log).revision().await.unwrap().unwrap().incarnation();
    for _ in 0..APPENDS {
        let Loaded::Absent(epoch) = store.load(&id("0"), Load::new()).await.unwrap() else {
            panic!("something is left")
        };
        on_threads(THREADS, |thread| {
            let (store, log, under) = (store.clone(), log.clone(), under.clone());
            async move {
                if thread == 0 {
                    store.bar(&under).await.unwrap();
                    store.erase(&under, None, usize::MAX).await.unwrap();
                    return;
                }
                let to = ForkTo::new(id(thread.to_string()), Seq::new(u64::MAX)).since(Some(epoch));
                match store.fork(&log, incarnation, to).await {
                    Ok(_) | Err(StoreError::Gone) => {}
                    Err(other) => panic!("expected the refusal `Gone`, got {other:?}"),
                }
            }
        })
        .await;
        assert!(store.count(&under).await.unwrap().total().is_nothing());
        assert_eq!(store.used(), used);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn parallel_first_turns_from_before_an_erasure_leave_nothing() {
    let store = MemoryStore::new();
    let under: Prefix = "memory".parse().unwrap();
    for _ in 0..APPENDS {
        // Nothing is there, so that all epochs are the current one.
        let Loaded::Absent(epoch) = store.load(&id("0"), Load::new()).await.unwrap() else {
            panic!("something is left")
        };
        on_threads(THREADS, |thread| {
            let (store, under) = (store.clone(), under.clone());
            async move {
                if thread == 0 {
                    store.bar(&under).await.unwrap();
                    store.erase(&under, None, usize::MAX).await.unwrap();
                    return;
                }
                let append = Append::new(Expect::AnyOrCreate, sized(100)).since(Some(epoch));
                match store.append(&id((thread % 5).to_string()), append).await {
                    Ok(_) | Err(StoreError::Gone) => {}
                    Err(other) => panic!("expected the refusal `Gone`, got {other:?}"),
                }
            }
        })
        .await;
        assert!(store.count(&under).await.unwrap().total().is_nothing());
        assert!(store.list(&Prefix::all(), None, 1).await.unwrap().conversations.is_empty());
    }
    assert_eq!(store.used(), 0);
}
