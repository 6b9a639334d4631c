//! What is kept: how often the store has to bring a window, and how much memory it takes.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use async_trait::async_trait;
use tower_chat_history::{
    Append, Appended, CachedStore, Compact, CompactOutcome, CompactionVersion, ConversationId, Cut, Exchange,
    ExchangeId, Expect, HistoryStore, Incarnation, Known, Load, LoadLimit, Loaded, MemoryStore, Message, Page, Profile,
    Seq, StoreError, TokenCounts,
};

/// A store that counts the windows it brings.
#[derive(Clone, Debug, Default)]
struct Counted {
    inner: MemoryStore,
    windows: Arc<AtomicUsize>,
    /// What it was last told to be known.
    known: Arc<Mutex<Option<Known>>>,
}

impl Counted {
    fn windows(&self) -> usize {
        self.windows.swap(0, Relaxed)
    }
}

#[async_trait]
impl HistoryStore for Counted {
    fn system(&self) -> &'static str {
        self.inner.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        self.known.lock().unwrap().clone_from(&load.known);
        let loaded = self.inner.load(id, load).await;
        if let Ok(Loaded::Window(_)) = &loaded {
            self.windows.fetch_add(1, Relaxed);
        }
        loaded
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        self.inner.append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.inner.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        self.inner.read(id, from, limit).await
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.inner.delete(id).await
    }
}

fn id(name: impl AsRef<str>) -> ConversationId {
    ConversationId::new(["cached", name.as_ref()]).unwrap()
}

/// A turn of two messages.
fn turn() -> Append {
    let messages = [Message::user("What does Tom chase?"), Message::assistant("Mice!")];
    Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages))
}

fn of(profile: &str, messages: usize) -> Load {
    Load::new().profile(Profile::new(profile).unwrap()).limit(LoadLimit::new(messages, 1 << 20).unwrap())
}

async fn len(store: &impl HistoryStore, id: &ConversationId, load: Load) -> usize {
    let Loaded::Window(window) = store.load(id, load).await.unwrap() else { panic!("it is there") };
    window.exchanges.len()
}

#[tokio::test]
async fn a_conversation_is_brought_once() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    store.append(&id, turn()).await.unwrap();
    for turns in 1..50 {
        assert_eq!(len(&store, &id, Load::new()).await, turns);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(behind.windows(), 1);
}

/// Two models over one log, with windows of their own.
#[tokio::test]
async fn profiles_and_limits_are_kept_beside_each_other() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    store.append(&id, turn()).await.unwrap();
    for turns in 1..20 {
        assert_eq!(len(&store, &id, of("small", 8)).await, turns.min(4));
        assert_eq!(len(&store, &id, of("large", 1_000)).await, turns);
        assert_eq!(len(&store, &id, of("large", 2)).await, 1);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(behind.windows(), 3);
}

/// More kinds of loads than are kept push each other out, and the memory of one conversation stays bounded.
#[tokio::test]
async fn only_so_many_kinds_of_a_conversations_windows_are_kept() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    for _ in 0..50 {
        store.append(&id, turn()).await.unwrap();
    }
    len(&store, &id, of("p", 1_000)).await;
    let one = store.used();
    for number in 0..100 {
        assert_eq!(len(&store, &id, of(&format!("p{number}"), 1_000)).await, 50);
    }
    assert_eq!(behind.windows(), 101);
    // The id is there once.
    assert_eq!(store.used(), 4 * one - 3 * id.as_str().len() as u64);
}

#[tokio::test]
async fn a_compaction_of_ones_own_brings_nothing_anew() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    let appended = store.append(&id, turn()).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    let cut = |version, start| Compact {
        profile: Profile::default(),
        replaces: CompactionVersion::new(version),
        cut: Cut::window_from(Seq::new(start)),
    };
    // With an exchange, and by itself.
    store.append(&id, turn().compact(cut(0, 1))).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    store.append(&id, turn()).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 2);
    store.compact(&id, appended.revision.incarnation(), cut(1, 2)).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    assert_eq!(behind.windows(), 1);
    // Another replica's is met where this one comes second.
    behind.compact(&id, appended.revision.incarnation(), cut(2, 2)).await.unwrap();
    let late = store.compact(&id, appended.revision.incarnation(), cut(2, 2)).await.unwrap();
    assert!(matches!(late, CompactOutcome::Kept(Some(_))), "{late:?}");
    assert_eq!((len(&store, &id, Load::new()).await, behind.windows()), (1, 1));
}

#[tokio::test]
async fn what_another_replica_appends_is_brought() {
    let (behind, id) = (Counted::default(), id("a"));
    let replicas = [CachedStore::new(behind.clone()), CachedStore::new(behind.clone())];
    replicas[0].append(&id, turn()).await.unwrap();
    for turns in 1..20 {
        let store = &replicas[turns % 2];
        assert_eq!(len(store, &id, Load::new()).await, turns);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(behind.windows(), 19);
}

/// Whatever the limit, and however many processors there are: room for a window of the default load limit.
#[tokio::test]
async fn long_windows_are_kept_and_make_room_for_each_other() {
    let (behind, id) = (Counted::default(), id("a"));
    for _ in 0..400 {
        let long = Exchange::new(ExchangeId::generate(), [Message::user("x".repeat(10_000))]);
        behind.append(&id, Append::new(Expect::AnyOrCreate, long)).await.unwrap();
    }
    for limit in [8 << 20, CachedStore::<Counted>::DEFAULT_LIMIT, 1 << 30] {
        let store = CachedStore::with_limit(behind.clone(), limit);
        for profile in ["a", "b", "c", "c", "b"] {
            let load = Load::new().profile(Profile::new(profile).unwrap());
            assert_eq!(len(&store, &id, load).await, 400);
            assert!(store.used() > 4_000_000, "{limit}");
        }
        let windows = behind.windows();
        assert!((3..=4).contains(&windows), "at least the newest of them is kept: {limit} {windows}");
    }
    let small = CachedStore::with_limit(behind.clone(), 1 << 20);
    assert_eq!((len(&small, &id, Load::new()).await, small.used()), (400, 0));
}

/// What a message's index copies out of its JSON takes memory too.
#[tokio::test]
async fn arguments_of_tool_calls_count_twice() {
    let used = |arguments: usize| async move {
        let (store, id) = (CachedStore::new(MemoryStore::new()), id("a"));
        let arguments = "x".repeat(arguments);
        let call = format!(r#"{{"id":"1","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}"#);
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        let messages = [Message::user("Hi"), Message::from_json(json).unwrap()];
        let append = Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages));
        store.append(&id, append).await.unwrap();
        len(&store, &id, Load::new()).await;
        store.used()
    };
    assert_eq!(used(10_000).await - used(1_000).await, 18_000);
}

/// A window grows by what is appended, but not beyond its limit.
#[tokio::test]
async fn a_long_conversation_takes_no_more_than_its_window() {
    let (store, id) = (CachedStore::new(MemoryStore::new()), id("a"));
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, of("p", 20)).await;
    let mut used = Vec::new();
    for _ in 0..100 {
        store.append(&id, turn()).await.unwrap();
        used.push(store.used());
    }
    assert!(used[20] > used[0]);
    assert_eq!(used[20], used[99]);
}

#[tokio::test]
async fn memory_is_bounded_by_forgetting_what_is_used_least() {
    let behind = Counted::default();
    let store = CachedStore::with_limit(behind.clone(), 1 << 20);
    for number in 0..1_000 {
        let id = id(number.to_string());
        for _ in 0..5 {
            behind.append(&id, turn()).await.unwrap();
        }
        len(&store, &id, Load::new()).await;
        // This one is in use all the time.
        len(&store, &self::id("0"), Load::new()).await;
        assert!(store.used() <= 1 << 20);
    }
    assert!(store.used() > 1 << 19, "{}", store.used());
    // Each conversation once, and hardly one of them a second time for the one in use.
    let windows = behind.windows();
    assert!((1_000..1_010).contains(&windows), "{windows}");
}

#[tokio::test]
async fn what_is_deleted_or_cleared_is_forgotten() {
    let store = CachedStore::new(MemoryStore::new());
    for name in ["a", "b"] {
        store.append(&id(name), turn()).await.unwrap();
        len(&store, &id(name), Load::new()).await;
    }
    let both = store.used();
    store.delete(&id("a")).await.unwrap();
    assert_eq!(store.used(), both / 2);
    // One that was deleted elsewhere is forgotten when it is asked for.
    store.inner().delete(&id("b")).await.unwrap();
    assert_eq!(store.load(&id("b"), Load::new()).await.unwrap(), Loaded::Absent);
    assert_eq!(store.used(), 0);

    store.append(&id("c"), turn()).await.unwrap();
    len(&store, &id("c"), Load::new()).await;
    store.clear();
    assert_eq!(store.used(), 0);
    assert_eq!(len(&store, &id("c"), Load::new()).await, 1);
}

/// A window that was cut by its limit is whole again, once a compaction starts it within what was let through.
#[tokio::test]
async fn a_compaction_makes_a_truncated_window_whole() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    let mut last = store.append(&id, turn()).await.unwrap();
    for _ in 0..4 {
        last = store.append(&id, turn()).await.unwrap();
    }
    let load = of("p", 6);
    for (start, truncated) in [(1, true), (2, false), (4, false)] {
        let Loaded::Window(window) = store.load(&id, load.clone()).await.unwrap() else { panic!("it is there") };
        let (profile, replaces) = (load.profile.clone(), window.compaction_version());
        let compact = Compact { profile, replaces, cut: Cut::window_from(Seq::new(start)) };
        store.compact(&id, last.revision.incarnation(), compact).await.unwrap();
        let Loaded::Window(window) = store.load(&id, load.clone()).await.unwrap() else { panic!("it is there") };
        assert_eq!(Loaded::Window(window.clone()), behind.inner.load(&id, load.clone()).await.unwrap());
        assert_eq!(window.truncated, truncated, "from {start}");
    }
    assert_eq!(behind.windows(), 1);
}

/// Another conversation of the same id and the same length took the place of the one that is kept.
#[tokio::test]
async fn what_is_kept_of_a_past_life_is_not_continued() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    behind.delete(&id).await.unwrap();
    behind.append(&id, turn()).await.unwrap();
    store.append(&id, turn()).await.unwrap();
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), behind.inner.load(&id, Load::new()).await.unwrap());
}

/// Another profile's window of a past life goes with it.
#[tokio::test]
async fn what_is_kept_of_a_past_life_is_forgotten() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, of("a", 1_000)).await;
    let one = store.used();
    len(&store, &id, of("b", 1_000)).await;
    assert!(store.used() > one);
    behind.delete(&id).await.unwrap();
    behind.append(&id, turn()).await.unwrap();
    len(&store, &id, of("b", 1_000)).await;
    assert_eq!(store.used(), one);
}

/// A server that lost its newest exchange in a failover has another one at the same revision.
#[tokio::test]
async fn the_store_is_asked_by_the_newest_exchange_too() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    let append = turn();
    let newest = append.exchange.id.clone();
    store.append(&id, append).await.unwrap();
    len(&store, &id, Load::new()).await;
    assert_eq!(behind.known.lock().unwrap().take().unwrap().newest, Some(newest));
}

/// As if they had been decoded.
#[tokio::test]
async fn messages_know_the_counts_that_came_with_their_exchange() {
    let (store, id) = (CachedStore::new(MemoryStore::new()), id("a"));
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    let mut append = turn();
    append.exchange.tokens = Some(TokenCounts { counter: "words".into(), counts: vec![4, 1] });
    store.append(&id, append).await.unwrap();
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
    let counter = Arc::from("words");
    assert_eq!(window.exchanges[1].exchange.messages[0].tokens_by(&counter), Some(4));
}

/// An append whose outcome is unknown leaves the window to be compared with the store's next answer.
#[tokio::test]
async fn a_duplicate_changes_nothing() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
    let append = turn();
    store.append(&id, append.clone()).await.unwrap();
    len(&store, &id, Load::new()).await;
    assert!(store.append(&id, append).await.unwrap().duplicate);
    assert_eq!((len(&store, &id, Load::new()).await, behind.windows()), (1, 1));
}
