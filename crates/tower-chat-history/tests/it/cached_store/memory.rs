//! How much memory what is kept takes, and when it is forgotten.

use tower_chat_history::{
    CachedStore, Exchange, ExchangeId, HistoryStore, MemoryStore, Message,
    store::{Append, Expect, Load, Loaded, Profile},
};

use super::support::{Counted, id, len, of, turn};

/// More kinds of loads than are kept push each other out, and the memory of one conversation stays bounded.
#[tokio::test]
async fn only_so_many_kinds_of_a_conversations_windows_are_kept() {
    let (behind, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(behind.clone());
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
    assert_eq!(behind.windows(), 102);
    // The conversation's own costs are there once.
    assert!(each < one);
    assert_eq!(store.used(), one + 3 * each);
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
