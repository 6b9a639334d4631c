//! Summaries, recalled messages and provenances that were changed or moved.

use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, OpenError},
};
use tower_chat_history_core::{
    Append, Citation, Compact, CompactOutcome, Compaction, CompactionVersion, Cut, Cuts, Derived, Expect, HistoryStore,
    List as _, Load, Loaded, Profile, Provenance, Prune, PruneTo, Recalled, Seq, StoreError, Summary, Truncate as _,
};

use crate::support::{append, id, in_memory, read_at, turn};

fn summary_to(seq: u64, text: &str) -> Cut {
    let mut cut = Cut::window_from(Seq::new(seq));
    cut.set_summary(Summary::new(text), Seq::new(seq));
    cut
}

fn in_profile(name: &str, cut: Cut) -> Compact {
    Cuts::new(cut).compact(Profile::new(name).unwrap(), CompactionVersion::NONE).unwrap()
}

/// Returns the request to store a compaction in another place.
fn moved(compaction: &Compaction, profile: &str, window_start: u64) -> Compact {
    let Compaction { state, derived, .. } = compaction.clone();
    let profile = Profile::new(profile).unwrap();
    Compact::new(profile, CompactionVersion::NONE, Seq::new(window_start), state, derived)
}

async fn load<S: HistoryStore>(store: &S, profile: &str) -> Result<Loaded, StoreError> {
    store.load(&id("acme/anna/1"), Load::new().profile(Profile::new(profile).unwrap())).await
}

#[tokio::test]
async fn a_summary_of_another_profile_or_window_does_not_open() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    append(&store, &id, turn("a")).await;
    let incarnation = append(&store, &id, turn("b")).await.revision.incarnation();
    store.compact(&id, incarnation, in_profile("a", summary_to(1, "of a"))).await.unwrap();
    let Loaded::Window(sealed) = load(store.inner(), "a").await.unwrap() else { panic!("no window") };
    let sealed = sealed.compaction.unwrap();
    for (other, window_start) in [("b", 1), ("c", 0)] {
        store.inner().compact(&id, incarnation, moved(&sealed, other, window_start)).await.unwrap();
        let Err(StoreError::CorruptCompaction { profile, source, .. }) = load(&store, other).await else {
            panic!("it opens")
        };
        assert_eq!(profile.as_str(), other);
        assert!(matches!(*source.downcast().unwrap(), OpenError::Changed { .. }));
    }
    assert!(load(&store, "a").await.is_ok());
    // An append with a compaction that comes too late is stored nevertheless.
    let late = Append::new(Expect::AnyOrCreate, turn("c")).compact(in_profile("b", summary_to(1, "late")));
    assert_eq!(store.append(&id, late).await.unwrap().compaction, Some(CompactOutcome::Kept(None)));
}

#[tokio::test]
async fn a_truncation_seals_the_summary_that_it_carries_over() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    append(&store, &id, turn("a")).await;
    append(&store, &id, turn("b")).await;
    let revision = append(&store, &id, turn("c")).await.revision;
    let mut compact = in_profile("a", summary_to(1, "secret"));
    store.compact(&id, revision.incarnation(), compact.clone()).await.unwrap();

    compact.replaces = CompactionVersion::new(1);
    store.truncate(&id, revision, Seq::new(2), Some(compact.clone())).await.unwrap();
    let Loaded::Window(sealed) = load(store.inner(), "a").await.unwrap() else { panic!("no window") };
    assert_ne!(sealed.compaction.unwrap().derived, compact.derived);
    let Loaded::Window(opened) = load(&store, "a").await.unwrap() else { panic!("no window") };
    assert_eq!(opened.compaction, Some(compact.stored_as(CompactionVersion::new(2))));
}

#[tokio::test]
async fn recalled_messages_and_provenances_of_another_exchange_do_not_open() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    let with_parts = |text| {
        let mut exchange = turn(text);
        exchange.recalled = Some(Recalled::new(text, vec![Citation::new(Seq::FIRST, 0..1)]));
        exchange.provenance = Some(Provenance::default());
        exchange
    };
    append(&store, &id, with_parts("a")).await;
    append(&store, &id, with_parts("b")).await;
    let first = read_at(store.inner(), &id, Seq::FIRST).await.unwrap();
    let second = read_at(store.inner(), &id, Seq::new(1)).await.unwrap();
    for part in ["recalled", "provenance"] {
        let mut changed = second.clone();
        match part {
            "recalled" => changed.recalled.clone_from(&first.recalled),
            _ => changed.provenance.clone_from(&first.provenance),
        }
        let inner = MemoryStore::new();
        for exchange in [first.clone(), changed] {
            inner.append(&id, Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
        }
        let store = EncryptedStore::new(inner, store.keys().clone());
        let error = read_at(&store, &id, Seq::new(1)).await.unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("exchange 1"), "{error}");
    }
}

#[tokio::test]
async fn what_cites_another_conversation_does_not_name_it_and_is_erased_as_before() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    let mut exchange = turn("a");
    let of_other = Citation::new(Seq::new(7), 0..2).of("acme/anna/secret".parse().unwrap());
    exchange.recalled = Some(Recalled::new("quote", vec![of_other]));
    let incarnation = append(&store, &id, exchange.clone()).await.revision.incarnation();
    let sealed = read_at(store.inner(), &id, Seq::FIRST).await.unwrap();
    assert!(!format!("{sealed:#?}").contains("secret"));
    assert_eq!(read_at(&store, &id, Seq::FIRST).await.unwrap(), exchange);
    store.prune(&id, incarnation, PruneTo::From(Seq::FIRST), Derived::Erase).await.unwrap();
    assert_eq!(read_at(&store, &id, Seq::FIRST).await.unwrap().recalled, None);
}

#[tokio::test]
async fn a_sealed_exchange_is_not_sealed_again() {
    let (store, id) = (in_memory(), id("acme/anna/1"));
    let sealed = turn("a").sealed_as("x".repeat(100)).unwrap();
    let refused = store.append(&id, Append::new(Expect::AnyOrCreate, sealed)).await;
    assert!(matches!(refused, Err(StoreError::Sealed { .. })), "{refused:?}");
    assert!(store.describe(&id).await.unwrap().is_none());
}
