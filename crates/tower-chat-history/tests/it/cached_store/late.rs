//! Calls whose answers arrive late, or whose callers leave early.

use tower_chat_history::{
    CachedStore, ConversationId, HistoryStore, MemoryStore,
    store::{
        Compact, CompactionVersion, Cut, Cuts, Derived, Incarnation, Load, Loaded, Profile, Prune, PruneTo, Seq,
        Summary, Truncate,
    },
};
use tower_chat_history_test::{FaultStore, Op};

use super::support::{id, len, turn};

/// Returns a cache over a store whose calls can be held, and that store.
fn cache_and_store() -> (CachedStore<FaultStore<MemoryStore>>, FaultStore<MemoryStore>) {
    let inner_store = FaultStore::new(MemoryStore::new());
    (CachedStore::new(inner_store.clone()), inner_store)
}

/// Stores two turns of a new incarnation, and returns the incarnation.
async fn two_turns(store: &impl HistoryStore, id: &ConversationId) -> Incarnation {
    store.append(id, turn()).await.unwrap();
    store.append(id, turn()).await.unwrap().revision.incarnation()
}

fn summarized(text: &str) -> Compact {
    let mut cut = Cut::window_from(Seq::new(1));
    cut.set_summary(Summary::new(text), Seq::new(1));
    Cuts::new(cut).compact(Profile::default(), CompactionVersion::NONE).unwrap()
}

/// The summary of a deleted conversation does not become the summary of its successor.
#[tokio::test]
async fn a_compaction_of_an_earlier_incarnation_is_not_cached() {
    let ((store, inner_store), id) = (cache_and_store(), id("a"));
    let first = two_turns(&store, &id).await;
    len(&store, &id, Load::new()).await;
    let hold = inner_store.hold_answers(Op::Compact);
    let late = tokio::spawn({
        let (store, id) = (store.clone(), id.clone());
        async move { store.compact(&id, first, summarized("of the first life")).await }
    });
    hold.reached(1).await;

    let elsewhere = inner_store.get_ref();
    elsewhere.delete(&id).await.unwrap();
    let second = two_turns(elsewhere, &id).await;
    elsewhere.compact(&id, second, summarized("of the second life")).await.unwrap();
    len(&store, &id, Load::new()).await;
    hold.release();
    late.await.unwrap().unwrap();
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), elsewhere.load(&id, Load::new()).await.unwrap());
}

/// If a caller leaves a call that removes something, the call still completes, and the cache forgets the
/// window.
#[tokio::test]
async fn a_removed_window_is_forgotten_even_if_the_caller_left() {
    for op in [Op::Delete, Op::Truncate, Op::Prune] {
        let ((store, inner_store), id) = (cache_and_store(), id("a"));
        let incarnation = two_turns(&store, &id).await;
        let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("no window") };
        assert!(store.used() > 0);
        let hold = inner_store.hold_answers(op);
        let call = tokio::spawn({
            let (store, id) = (store.clone(), id.clone());
            async move {
                match op {
                    Op::Delete => drop(store.delete(&id).await),
                    Op::Truncate => drop(store.truncate(&id, window.revision, Seq::new(1), None).await),
                    _ => drop(store.prune(&id, incarnation, PruneTo::LastTurns(1), Derived::Erase).await),
                }
            }
        });
        hold.reached(1).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(store.used(), 0, "{op:?}");
    }
}
