//! Compactions at a truncation and an erasing prune, and those that cannot be read.

use std::sync::Arc;

use tower_chat_history::{
    ConversationId, Engine, Exchange, ExchangeId, HistoryError, HistoryOptions, HistoryStore, HistoryStoreExt as _,
    MemoryStore, Message, Policies, Reply, StoreError, TurnInput,
    policy::OnLoadFailure,
    store::{
        Append, Compact, Compaction, CompactionVersion, Cut, Cuts, Derived, Expect, Load, Loaded, Profile, PruneTo,
        Seq, Summary, Window,
    },
};
use tower_chat_history_test::{Fault, FaultStore, Op};

fn id() -> ConversationId {
    ConversationId::new(["compactions"]).unwrap()
}

fn small() -> Profile {
    Profile::new("small").unwrap()
}

/// Returns a cut whose window starts at 2.
fn cut() -> Cut {
    let mut cut = Cut::window_from(Seq::new(2));
    (cut.rounds_start, cut.encrypted_from) = (Seq::new(5), Seq::new(4));
    cut
}

fn summarized() -> Cut {
    let mut cut = cut();
    cut.set_summary(Summary::new("secret"), Seq::new(2));
    cut
}

/// Returns cuts that only leave out encrypted elements.
fn encrypted_from(seq: u64) -> Cuts {
    let mut cut = Cut::default();
    cut.encrypted_from = Seq::new(seq);
    Cuts::new(cut)
}

async fn window(store: &impl HistoryStore, profile: Profile) -> Window {
    let Loaded::Window(window) = store.load(&id(), Load::new().profile(profile)).await.unwrap() else {
        panic!("it exists")
    };
    window
}

async fn stored(store: &impl HistoryStore, profile: Profile) -> Option<Compaction> {
    window(store, profile).await.compaction
}

/// Returns a store with a log of six exchanges, and this compaction in two profiles.
async fn filled(cuts: &Cuts) -> MemoryStore {
    let store = MemoryStore::new();
    for _ in 0..6 {
        let exchange = Exchange::new(ExchangeId::generate(), [Message::user("u"), Message::assistant("a")]);
        store.append(&id(), Append::new(Expect::AnyOrCreate, exchange)).await.unwrap();
    }
    let incarnation = window(&store, small()).await.revision.incarnation();
    for profile in [Profile::default(), small()] {
        let compact = cuts.compact(profile, CompactionVersion::NONE).unwrap();
        store.compact(&id(), incarnation, compact).await.unwrap();
    }
    store
}

/// Stores a compaction that no engine wrote.
async fn damage(store: &MemoryStore) {
    let window = window(store, Profile::default()).await;
    let state = Arc::from(*b"secret");
    let damaged = Compact::new(Profile::default(), window.compaction_version(), Seq::new(2), state, None);
    store.compact(&id(), window.revision.incarnation(), damaged).await.unwrap();
}

#[tokio::test]
async fn a_truncation_keeps_what_is_right_of_the_compaction_of_its_profile() {
    let cuts = Cuts::new(summarized());
    for (kept, removed) in [(Profile::default(), small()), (small(), Profile::default())] {
        let store = filled(&cuts).await;
        store.conversation(&id()).profile(kept.clone()).truncate(Seq::new(4)).await.unwrap();
        let left = stored(&store, kept.clone()).await.unwrap();
        assert_eq!((left.version, left.window_start), (CompactionVersion::new(2), Seq::new(2)));
        assert_eq!(Cuts::read(&left).unwrap(), cuts.truncated_to(4).unwrap());
        assert_eq!(stored(&store, removed).await, None);

        // The next one removes the start of the window.
        store.conversation(&id()).profile(kept.clone()).take_last().await.unwrap();
        store.conversation(&id()).profile(kept.clone()).take_last().await.unwrap();
        let left = Cuts::read(&stored(&store, kept).await.unwrap()).unwrap();
        assert_eq!(left, encrypted_from(2));
    }
}

#[tokio::test]
async fn a_truncation_of_nothing_changes_no_compaction() {
    let store = filled(&Cuts::new(cut())).await;
    let before = window(&store, small()).await;
    assert_eq!(store.conversation(&id()).truncate(Seq::new(6)).await.unwrap().removed, 0);
    assert_eq!(window(&store, small()).await, before);
}

#[tokio::test]
async fn a_truncation_removes_a_compaction_that_cannot_be_read() {
    let store = filled(&Cuts::new(cut())).await;
    damage(&store).await;
    assert!(store.conversation(&id()).take_last().await.unwrap().is_some());
    assert_eq!(stored(&store, Profile::default()).await, None);
}

#[tokio::test]
async fn an_exchange_that_cannot_be_read_can_be_truncated() {
    let store = FaultStore::new(filled(&Cuts::new(cut())).await);
    store.fail(Op::Load, 1, Fault::Corrupt);
    assert_eq!(store.conversation(&id()).truncate(Seq::new(3)).await.unwrap().removed, 3);
    assert_eq!(stored(&store, Profile::default()).await, None);
}

#[tokio::test]
async fn an_erasing_prune_leaves_no_summary_of_any_profile() {
    let store = filled(&Cuts::new(summarized())).await;
    store.conversation(&id()).prune(PruneTo::From(Seq::new(1)), Derived::Erase).await.unwrap();
    for profile in [Profile::default(), small()] {
        let left = stored(&store, profile).await.unwrap();
        assert_eq!((left.version, left.window_start, &left.derived), (CompactionVersion::new(2), Seq::new(1), &None));
        assert_eq!(Cuts::read(&left).unwrap(), encrypted_from(4));
    }
    // The next turn begins with what is left of the log.
    let engine = Engine::new(store);
    let turn = engine.begin(TurnInput::new(id(), [Message::user("u")])).await.unwrap();
    assert_eq!(turn.context().len(), 2 * 5 + 1);
}

#[tokio::test]
async fn a_compaction_that_cannot_be_read_is_a_failed_load() {
    let store = filled(&Cuts::new(cut())).await;
    damage(&store).await;
    let begin = async |on_load_failure| {
        let options = HistoryOptions::new().policies(Policies::new().on_load_failure(on_load_failure));
        Engine::with_options(store.clone(), options).begin(TurnInput::new(id(), [Message::user("u")])).await
    };
    let error = begin(OnLoadFailure::Fail).await.err().unwrap();
    let right = matches!(&error, HistoryError::Load(StoreError::CorruptCompaction { .. }));
    assert!(right && !format!("{error:?} {error}").contains("secret"), "{error:?}");
    assert_eq!(error.kind(), "corrupt");

    let turn = begin(OnLoadFailure::CallWithoutHistory).await.unwrap();
    let report = turn.commit(Reply::new(Message::assistant("a"))).await.unwrap();
    assert_eq!(report.outcome.kind(), "stored");
}
