//! Compactions: damaged rows, and what is left of them after removals.

use std::sync::Arc;

use libtest_mimic::Trial;
use test_servers::trials;
use tokio_postgres::Client;
use tower_chat_history_core::{
    Append, CompactOutcome, CompactionVersion, ConversationId, Derived, Expect, HistoryStore, Load, Loaded, Profile,
    Prune, PruneTo, Seq, StoreError, Truncate,
};
use tower_chat_history_postgres::PostgresStore;

use crate::{
    proxy::Proxy,
    support::{append, compact, compact_with, connect, conversation, database, exchange, say, single, texts, window},
};

pub(crate) fn tests() -> Vec<Trial> {
    trials![
        a_window_that_starts_beyond_the_log_is_corrupt,
        compaction_versions_below_their_range_are_corrupt,
        a_truncation_keeps_only_the_compaction_that_it_replaces,
        an_erasing_prune_leaves_compactions_without_derived_text,
        a_repeated_append_does_not_find_what_a_removal_left_of_its_compaction,
        compactions_of_many_profiles_cost_a_removal_no_round_trips,
    ]
}

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Creates the conversation of [`setup_in`] in a new database.
async fn setup() -> (PostgresStore, Client, ConversationId) {
    setup_in(&database().await).await
}

/// Creates a conversation of three turns with two exchanges each. It replaces that of an earlier call.
async fn setup_in(url: &str) -> (PostgresStore, Client, ConversationId) {
    let (store, client) = (single(url).await, connect(url).await);
    let id = conversation("compacted");
    store.delete(&id).await.unwrap();
    for turn in 0..3 {
        say(&store, &id, "question").await;
        let revision = window(&store, &id).await.revision;
        let more = exchange("more").continuing(Seq::new(2 * turn));
        store.append(&id, Append::new(Expect::Exactly(revision), more)).await.unwrap();
    }
    (store, client, id)
}

async fn a_window_that_starts_beyond_the_log_is_corrupt() {
    let (store, client, id) = setup().await;
    for start in [6, 7, 99, i64::MAX, -1] {
        let change = format!(
            "delete from chat_history.compaction; insert into chat_history.compaction \
             select id, 'default', 1, {start}, gen_random_uuid(), 'state', null \
             from chat_history.conversation where key = 'test/compacted'"
        );
        client.batch_execute(&change).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{start}: {error:?}");
    }
}

async fn compaction_versions_below_their_range_are_corrupt() {
    let url = database().await;
    for version in [i64::MIN, -1, 0] {
        let (store, client, id) = setup_in(&url).await;
        let incarnation = window(&store, &id).await.revision.incarnation();
        store.compact(&id, incarnation, compact(NONE, 2)).await.unwrap();
        client.batch_execute(&format!("update chat_history.compaction set version = {version}")).await.unwrap();
        let error = store.load(&id, Load::new()).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{version}: {error:?}");
        let replaces = CompactionVersion::new(1);
        let error = store.compact(&id, incarnation, compact(replaces, 2)).await.unwrap_err();
        assert!(matches!(error, StoreError::CorruptCompaction { .. }), "{version}: {error:?}");
        // The exchange was paid for, so it is stored whatever the state of the stored compaction.
        let appended = store.append(&id, append("more").compact(compact(replaces, 2))).await.unwrap();
        assert_eq!(appended.compaction, Some(CompactOutcome::Kept(None)), "{version}");
        store.truncate(&id, appended.revision, appended.seq, None).await.unwrap();
        let window = window(&store, &id).await;
        assert_eq!((window.compaction, window.exchanges.len()), (None, 6), "a damaged compaction is removed");
    }
}

async fn a_truncation_keeps_only_the_compaction_that_it_replaces() {
    let url = database().await;
    for (replaces, is_kept) in [(1, true), (2, false)] {
        let (store, _, id) = setup_in(&url).await;
        let revision = window(&store, &id).await.revision;
        let incarnation = revision.incarnation();
        let other = Profile::new("other").unwrap();
        let mut of_other = compact_with("a summary", 2);
        of_other.profile = other.clone();
        for stored in [compact_with("a summary", 2), of_other] {
            store.compact(&id, incarnation, stored).await.unwrap();
        }

        let mut keep = compact_with("another summary", 0);
        keep.replaces = CompactionVersion::new(replaces);
        store.truncate(&id, revision, Seq::new(4), Some(keep.clone())).await.unwrap();
        let expected = is_kept.then(|| keep.stored_as(CompactionVersion::new(2)));
        assert_eq!(window(&store, &id).await.compaction, expected);
        let Loaded::Window(other) = store.load(&id, Load::new().profile(other)).await.unwrap() else { unreachable!() };
        assert_eq!((other.compaction, other.exchanges.len()), (None, 4));
    }
}

async fn an_erasing_prune_leaves_compactions_without_derived_text() {
    let (store, _, id) = setup().await;
    let incarnation = window(&store, &id).await.revision.incarnation();
    let other = Profile::new("other").unwrap();
    let mut without = compact(NONE, 4);
    without.profile = other.clone();
    let with = compact_with("a summary", 4);
    for stored in [&with, &without] {
        store.compact(&id, incarnation, stored.clone()).await.unwrap();
    }

    store.prune(&id, incarnation, PruneTo::From(Seq::new(2)), Derived::Erase).await.unwrap();
    let left = window(&store, &id).await;
    assert_eq!(left.compaction, Some(with.stored_as(NONE.next()).without_derived(Seq::new(2))));
    assert_eq!(left.exchanges.len(), 4);
    let Loaded::Window(left) = store.load(&id, Load::new().profile(other)).await.unwrap() else { unreachable!() };
    assert_eq!(left.compaction, Some(without.stored_as(NONE.next()).without_derived(Seq::new(2))));
    assert_eq!(left.exchanges.len(), 2);
}

/// The caller would otherwise take the compaction for the one that it stored, with its derived text.
async fn a_repeated_append_does_not_find_what_a_removal_left_of_its_compaction() {
    let append = "select r_verdict, r_compacted, r_compaction from chat_history.append_1(null, 'test/compacted', 3, null, null, \
                  null, 0, 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6', 'x', 0, null, 2, 10, 0, 'x', null, null, null, \
                  'default', 0, 2, 'state', 'a summary')";
    let url = database().await;
    for erases in [true, false] {
        let (store, client, id) = setup_in(&url).await;
        let append = async || {
            let row = client.query_one(append, &[]).await.unwrap();
            (row.get::<_, i32>(0), row.get::<_, bool>(1), row.get::<_, i64>(2))
        };
        assert_eq!(append().await, (0, true, 1));
        assert_eq!(append().await, (0, true, 1), "the repetition finds what was stored");
        let incarnation = store.read(&id, Seq::FIRST, 1).await.unwrap().revision.unwrap().incarnation();
        if erases {
            store.prune(&id, incarnation, PruneTo::From(Seq::new(2)), Derived::Erase).await.unwrap();
        } else {
            let last = say(&store, &id, "last").await;
            let mut keep = compact(CompactionVersion::new(1), 2);
            keep.derived = Some(Arc::from(&b"another summary"[..]));
            store.truncate(&id, last.revision, last.seq, Some(keep)).await.unwrap();
        }
        assert_eq!(append().await, (0, false, 2), "erases: {erases}");
    }
}

/// A truncation and a prune change all compactions in one statement.
async fn compactions_of_many_profiles_cost_a_removal_no_round_trips() {
    let (url, proxy) = (database().await, Proxy::new());
    let store = single(&proxy.url(&url)).await;
    let mut trips = Vec::new();
    // A connection prepares a statement at its first use.
    for (number, profiles) in [1, 1, 8].into_iter().enumerate() {
        let id = conversation(&number.to_string());
        for text in ["one", "two", "three"] {
            say(&store, &id, text).await;
        }
        let revision = window(&store, &id).await.revision;
        for profile in 0..profiles {
            let mut compact = compact_with("a summary", 1);
            compact.profile = Profile::new(profile.to_string()).unwrap();
            store.compact(&id, revision.incarnation(), compact).await.unwrap();
        }

        proxy.trips();
        let keep = PruneTo::LastTurns(2);
        let pruned = store.prune(&id, revision.incarnation(), keep, Derived::Erase).await.unwrap();
        let of_prune = proxy.trips();
        let mut keep = compact(CompactionVersion::new(2), 1);
        keep.profile = Profile::new("0").unwrap();
        store.truncate(&id, pruned.revision, Seq::new(2), Some(keep)).await.unwrap();
        trips.push((of_prune, proxy.trips()));
    }
    assert_eq!(trips[1..], [(9, 7), (9, 7)]);
    assert_eq!(texts(&store, &conversation("2")).await, ["two"]);
}
