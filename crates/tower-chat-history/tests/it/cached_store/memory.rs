//! The memory of cached windows, and the order in which they are forgotten.

use tower_chat_history::{
    CachedStore, Exchange, ExchangeId, HistoryStore, MemoryStore, Message,
    store::{Append, Expect, Load, Profile},
};

use super::support::{Counted, id, len, of, turn};

/// The cache keeps a limited number of windows of one conversation. Further kinds of loads replace older ones.
#[tokio::test]
async fn the_number_of_cached_windows_per_conversation_is_bounded() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    for _ in 0..50 {
        store.append(&id, turn()).await.unwrap();
    }
    len(&store, &id, of("p100", 1_000)).await;
    let one = store.used();
    len(&store, &id, of("p101", 1_000)).await;
    let each = store.used() - one;
    for number in 0..100 {
        assert_eq!(len(&store, &id, of(&format!("p{number:03}"), 1_000)).await, 50);
    }
    assert_eq!(inner_store.windows(), 102);
    // The conversation's own costs are counted once.
    assert!(each < one);
    assert_eq!(store.used(), one + 3 * each);
}

/// With any limit and any number of processors, the cache has room for a window of the default load limit.
#[tokio::test]
async fn long_windows_are_cached_and_replace_each_other() {
    let (inner_store, id) = (Counted::default(), id("a"));
    for _ in 0..400 {
        let long = Exchange::new(ExchangeId::generate(), [Message::user("x".repeat(10_000))]);
        inner_store.append(&id, Append::new(Expect::AnyOrCreate, long)).await.unwrap();
    }
    for limit in [8 << 20, CachedStore::<Counted>::DEFAULT_LIMIT, 1 << 30] {
        let store = CachedStore::with_limit(inner_store.clone(), limit);
        for profile in ["a", "b", "c", "c", "b"] {
            let load = Load::new().profile(Profile::new(profile).unwrap());
            assert_eq!(len(&store, &id, load).await, 400);
            assert!(store.used() > 4_000_000, "{limit}");
        }
        let windows = inner_store.windows();
        assert!((3..=4).contains(&windows), "at least the newest of them is kept: {limit} {windows}");
    }
    let small = CachedStore::with_limit(inner_store.clone(), 1 << 20);
    assert_eq!((len(&small, &id, Load::new()).await, small.used()), (400, 0));
}

/// The index of a message copies parts of its JSON, which also takes memory. So does the form for a reader.
#[tokio::test]
async fn arguments_of_tool_calls_count_four_times() {
    let used = |arguments: usize| async move {
        let (store, id) = (CachedStore::new(MemoryStore::new()), id("a"));
        let arguments = format!(r#"{{\"q\":\"{}\"}}"#, "x".repeat(arguments));
        let call = format!(r#"{{"id":"1","type":"function","function":{{"name":"f","arguments":"{arguments}"}}}}"#);
        let json = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        let messages = [Message::user("Hi"), Message::from_json(json).unwrap()];
        let append = Append::new(Expect::AnyOrCreate, Exchange::new(ExchangeId::generate(), messages));
        store.append(&id, append).await.unwrap();
        len(&store, &id, Load::new()).await;
        store.used()
    };
    assert_eq!(used(10_000).await - used(1_000).await, 36_000);
}

/// A window grows with each append, up to its limit.
#[tokio::test]
async fn the_memory_of_a_long_conversation_is_that_of_its_window() {
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
async fn the_least_used_windows_are_forgotten_at_the_limit() {
    let inner_store = Counted::default();
    let store = CachedStore::with_limit(inner_store.clone(), 1 << 20);
    for number in 0..1_000 {
        let id = id(number.to_string());
        for _ in 0..5 {
            inner_store.append(&id, turn()).await.unwrap();
        }
        len(&store, &id, Load::new()).await;
        // This conversation is used all the time.
        len(&store, &self::id("0"), Load::new()).await;
        assert!(store.used() <= 1 << 20);
    }
    assert!(store.used() > 1 << 19, "{}", store.used());
    // Each conversation is loaded once, and hardly any a second time because of the one in constant use.
    let windows = inner_store.windows();
    assert!((1_000..1_010).contains(&windows), "{windows}");
}

#[tokio::test]
async fn deleted_and_cleared_windows_are_forgotten() {
    let store = CachedStore::new(MemoryStore::new());
    for name in ["a", "b"] {
        store.append(&id(name), turn()).await.unwrap();
        len(&store, &id(name), Load::new()).await;
    }
    let both = store.used();
    store.delete(&id("a")).await.unwrap();
    assert_eq!(store.used(), both / 2);
    // A conversation that another replica deleted is forgotten at its next load.
    store.inner().delete(&id("b")).await.unwrap();
    assert!(store.load(&id("b"), Load::new()).await.unwrap().is_absent());
    assert_eq!(store.used(), 0);

    store.append(&id("c"), turn()).await.unwrap();
    len(&store, &id("c"), Load::new()).await;
    store.clear();
    assert_eq!(store.used(), 0);
    assert_eq!(len(&store, &id("c"), Load::new()).await, 1);
}

/// If the window of one profile turns out to be of an earlier incarnation, the other profiles' windows are
/// forgotten too.
#[tokio::test]
async fn windows_of_an_earlier_incarnation_are_forgotten() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, of("a", 1_000)).await;
    let one = store.used();
    len(&store, &id, of("b", 1_000)).await;
    assert!(store.used() > one);
    inner_store.delete(&id).await.unwrap();
    inner_store.append(&id, turn()).await.unwrap();
    len(&store, &id, of("b", 1_000)).await;
    assert_eq!(store.used(), one);
}
