//! What is kept: how often the store has to bring a window.

use std::sync::Arc;

use tower_chat_history::{
    CachedStore, HistoryStore, MemoryStore,
    store::{Compact, CompactOutcome, CompactionVersion, Cut, Load, Loaded, Profile, Seq, TokenCounts},
};

use super::support::{Counted, id, len, of, turn};

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
