//! The number of windows that the inner store has to return.

use std::sync::Arc;

use tower_chat_history::{
    CachedStore, HistoryStore, MemoryStore,
    store::{CompactOutcome, CompactionVersion, Cut, Cuts, Load, Loaded, Profile, Seq, TokenCounts},
};

use super::support::{Counted, id, len, of, turn};

#[tokio::test]
async fn a_window_is_loaded_once() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    store.append(&id, turn()).await.unwrap();
    for turns in 1..50 {
        assert_eq!(len(&store, &id, Load::new()).await, turns);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(inner_store.windows(), 1);
}

/// Two models use one log, each with its own windows.
#[tokio::test]
async fn windows_of_several_profiles_and_limits_are_cached() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    store.append(&id, turn()).await.unwrap();
    for turns in 1..20 {
        assert_eq!(len(&store, &id, of("small", 8)).await, turns.min(4));
        assert_eq!(len(&store, &id, of("large", 1_000)).await, turns);
        assert_eq!(len(&store, &id, of("large", 2)).await, 1);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(inner_store.windows(), 3);
}

#[tokio::test]
async fn a_compaction_through_the_cache_reloads_nothing() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    let appended = store.append(&id, turn()).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    let cut = |version, start| {
        let cuts = Cuts::new(Cut::window_from(Seq::new(start)));
        cuts.compact(Profile::default(), CompactionVersion::new(version)).unwrap()
    };
    // With an exchange, and alone.
    store.append(&id, turn().compact(cut(0, 1))).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    store.append(&id, turn()).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 2);
    store.compact(&id, appended.revision.incarnation(), cut(1, 2)).await.unwrap();
    assert_eq!(len(&store, &id, Load::new()).await, 1);
    assert_eq!(inner_store.windows(), 1);
    // The other replica's compaction is first, and this one is refused.
    inner_store.compact(&id, appended.revision.incarnation(), cut(2, 2)).await.unwrap();
    let late = store.compact(&id, appended.revision.incarnation(), cut(2, 2)).await.unwrap();
    assert!(matches!(late, CompactOutcome::Kept(Some(_))), "{late:?}");
    assert_eq!((len(&store, &id, Load::new()).await, inner_store.windows()), (1, 1));
}

#[tokio::test]
async fn only_the_appends_of_another_replica_are_loaded() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let replicas = [CachedStore::new(inner_store.clone()), CachedStore::new(inner_store.clone())];
    replicas[0].append(&id, turn()).await.unwrap();
    for turns in 1..20 {
        let store = &replicas[turns % 2];
        assert_eq!(len(store, &id, Load::new()).await, turns);
        store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(inner_store.windows(), 2, "the first load of each replica");
    assert_eq!(inner_store.added(), 17, "one for each further load");
}

/// A window that grew by what other processes added is cut like one that was loaded.
#[tokio::test]
async fn an_extended_window_is_cut_to_its_limit() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    inner_store.append(&id, turn()).await.unwrap();
    assert_eq!(len(&store, &id, of("small", 6)).await, 1);
    for turns in 2..10 {
        inner_store.append(&id, turn()).await.unwrap();
        assert_eq!(len(&store, &id, of("small", 6)).await, turns.min(3));
    }
    assert_eq!((inner_store.windows(), inner_store.added()), (1, 8));
    // More than the limit was added since.
    for _ in 0..4 {
        inner_store.append(&id, turn()).await.unwrap();
    }
    assert_eq!(len(&store, &id, of("small", 6)).await, 3);
    assert_eq!((inner_store.windows(), inner_store.added()), (1, 0));
}

/// A window that was cut by its limit is complete again after a compaction that starts it at a message within
/// the limit.
#[tokio::test]
async fn a_compaction_completes_a_truncated_window() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    let mut last = store.append(&id, turn()).await.unwrap();
    for _ in 0..4 {
        last = store.append(&id, turn()).await.unwrap();
    }
    let load = of("p", 6);
    for (start, truncated) in [(1, true), (2, false), (4, false)] {
        let Loaded::Window(window) = store.load(&id, load.clone()).await.unwrap() else { panic!("no window") };
        let (profile, replaces) = (load.profile.clone(), window.compaction_version());
        let compact = Cuts::new(Cut::window_from(Seq::new(start))).compact(profile, replaces).unwrap();
        store.compact(&id, last.revision.incarnation(), compact).await.unwrap();
        let Loaded::Window(window) = store.load(&id, load.clone()).await.unwrap() else { panic!("no window") };
        assert_eq!(Loaded::Window(window.clone()), inner_store.inner.load(&id, load.clone()).await.unwrap());
        assert_eq!(window.truncated, truncated, "from {start}");
    }
    assert_eq!(inner_store.windows(), 1);
}

/// Another conversation with the same id and the same length replaced the cached one.
#[tokio::test]
async fn a_window_of_an_earlier_incarnation_is_not_continued() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    inner_store.delete(&id).await.unwrap();
    inner_store.append(&id, turn()).await.unwrap();
    store.append(&id, turn()).await.unwrap();
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), inner_store.inner.load(&id, Load::new()).await.unwrap());
}

/// After a failover that lost its newest exchange, a server has another exchange at the same revision.
#[tokio::test]
async fn a_window_is_revalidated_by_its_newest_exchange() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    let append = turn();
    let newest = append.exchange.id.clone();
    store.append(&id, append).await.unwrap();
    len(&store, &id, Load::new()).await;
    assert_eq!(inner_store.known.lock().unwrap().take().unwrap().newest, Some(newest));
}

/// As if the messages had been decoded from records.
#[tokio::test]
async fn cached_messages_have_the_token_counts_of_their_exchange() {
    let (store, id) = (CachedStore::new(MemoryStore::new()), id("a"));
    store.append(&id, turn()).await.unwrap();
    len(&store, &id, Load::new()).await;
    let mut append = turn();
    Arc::make_mut(&mut append.exchange).tokens = Some(TokenCounts { counter: "words".into(), counts: vec![4, 1] });
    store.append(&id, append).await.unwrap();
    let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("no window") };
    let counter = Arc::from("words");
    assert_eq!(window.exchanges[1].exchange.messages[0].tokens_by(&counter), Some(4));
}

/// An append with an unknown outcome: the window is compared with the store's next answer.
#[tokio::test]
async fn a_duplicate_does_not_change_the_window() {
    let (inner_store, id) = (Counted::default(), id("a"));
    let store = CachedStore::new(inner_store.clone());
    let append = turn();
    store.append(&id, append.clone()).await.unwrap();
    len(&store, &id, Load::new()).await;
    assert!(store.append(&id, append).await.unwrap().duplicate);
    assert_eq!((len(&store, &id, Load::new()).await, inner_store.windows()), (1, 1));
}
