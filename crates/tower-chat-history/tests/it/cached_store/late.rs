//! Calls whose answers come late, or whose callers leave before.

use tower_chat_history::{
    CachedStore, ConversationId, HistoryStore, MemoryStore,
    store::{
        Compact, CompactionVersion, Cut, Derived, Incarnation, Load, Loaded, Profile, Prune, PruneTo, Seq, Summary,
        Truncate,
    },
};
use tower_chat_history_test::{FaultStore, Op};

use super::support::{id, len, turn};

/// A cache over a store that can be held, and the store.
fn held() -> (CachedStore<FaultStore<MemoryStore>>, FaultStore<MemoryStore>) {
    let behind = FaultStore::new(MemoryStore::new());
    (CachedStore::new(behind.clone()), behind)
}

/// Two turns of a new life.
async fn two_turns(store: &impl HistoryStore, id: &ConversationId) -> Incarnation {
    store.append(id, turn()).await.unwrap();
    store.append(id, turn()).await.unwrap().revision.incarnation()
}

fn summarized(text: &str) -> Compact {
    let mut cut = Cut::window_from(Seq::new(1));
    cut.summary = Some(Summary::new(text, Seq::new(1)));
    Compact { profile: Profile::default(), replaces: CompactionVersion::NONE, cut }
}

/// The summary of a conversation that was deleted is not that of the one that took its place.
#[tokio::test]
async fn a_compaction_of_a_past_life_is_not_taken_for_this_ones() {
    let ((store, behind), id) = (held(), id("a"));
    let first = two_turns(&store, &id).await;
    len(&store, &id, Load::new()).await;
    let hold = behind.hold_answers(Op::Compact);
    let late = tokio::spawn({
        let (store, id) = (store.clone(), id.clone());
        async move { store.compact(&id, first, summarized("of the first life")).await }
    });
    hold.reached(1).await;

    let elsewhere = behind.get_ref();
    elsewhere.delete(&id).await.unwrap();
    let second = two_turns(elsewhere, &id).await;
    elsewhere.compact(&id, second, summarized("of the second life")).await.unwrap();
    len(&store, &id, Load::new()).await;
    hold.release();
    late.await.unwrap().unwrap();
    assert_eq!(store.load(&id, Load::new()).await.unwrap(), elsewhere.load(&id, Load::new()).await.unwrap());
}

/// Whoever leaves a call that removes something has it done all the same, and wants it gone from here too.
#[tokio::test]
async fn what_is_removed_is_forgotten_though_the_caller_left() {
    for op in [Op::Delete, Op::Truncate, Op::Prune] {
        let ((store, behind), id) = (held(), id("a"));
        let incarnation = two_turns(&store, &id).await;
        let Loaded::Window(window) = store.load(&id, Load::new()).await.unwrap() else { panic!("it is there") };
        assert!(store.used() > 0);
        let hold = behind.hold_answers(op);
        let call = tokio::spawn({
            let (store, id) = (store.clone(), id.clone());
            async move {
                match op {
                    Op::Delete => drop(store.delete(&id).await),
                    Op::Truncate => drop(store.truncate(&id, window.revision, Seq::new(1)).await),
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
