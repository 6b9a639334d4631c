//! Caches after erasures.

use std::time::Duration;

use tower_chat_history::{
    CachedStore, HistoryStore as _, HistoryStoreExt as _, MemoryStore, Message,
    store::{Erase as _, EraseExt as _, Load, Prefix},
};

use super::support::{id, len};

/// Stores conversations, and loads them through the cache.
async fn cached(names: &[&str]) -> CachedStore<MemoryStore> {
    let store = CachedStore::new(MemoryStore::new());
    for name in names {
        let messages = [Message::user("u".repeat(1_000)), Message::assistant("a")];
        store.conversation(&id(name)).import(messages).await.unwrap();
        len(&store, &id(name), Load::new()).await;
    }
    store
}

#[tokio::test]
async fn an_erasure_through_the_cache_forgets_the_windows_at_once() {
    let store = cached(&["a", "b"]).await;
    let both = store.used();
    store.bar(&Prefix::from(&id("a"))).await.unwrap();
    assert!(store.used() < both, "the window is forgotten before it is erased");
    store.erase_all(&Prefix::from(&id("a"))).await.unwrap();
    assert!(store.load(&id("a"), Load::new()).await.unwrap().is_absent());
    assert_eq!(len(&store, &id("b"), Load::new()).await, 1);
}

#[tokio::test]
async fn nothing_that_another_process_erased_is_served() {
    let store = cached(&["a"]).await;
    store.inner().erase_all(&Prefix::all()).await.unwrap();
    assert!(store.used() > 0, "this process does not know it yet");
    assert!(store.load(&id("a"), Load::new()).await.unwrap().is_absent());
    assert_eq!(store.used(), 0);
}

#[tokio::test]
async fn what_is_forgotten_is_only_what_the_prefix_contains() {
    let store = cached(&["a", "b"]).await;
    let both = store.used();
    store.forget(&Prefix::from(&id("c")));
    assert_eq!(store.used(), both);
    store.forget(&Prefix::from(&id("a")));
    assert!(store.used() < both && store.used() > 0);
    store.forget(&Prefix::all());
    assert_eq!(store.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_load_after_an_hour_forgets_the_idle_windows_of_others() {
    let store = cached(&["a", "b"]).await;
    let both = store.used();
    for minutes in [30, 31] {
        assert_eq!(store.used(), both);
        tokio::time::advance(Duration::from_secs(minutes * 60)).await;
        store.load(&id("a"), Load::new()).await.unwrap();
    }
    assert!(store.used() < both && store.used() > 0, "a was used within the hour, b was not");
}

#[tokio::test]
async fn idle_windows_are_forgotten() {
    let store = cached(&["a"]).await;
    store.forget_idle(Duration::from_secs(3_600));
    assert!(store.used() > 0);
    store.forget_idle(Duration::ZERO);
    assert_eq!(store.used(), 0);
}
