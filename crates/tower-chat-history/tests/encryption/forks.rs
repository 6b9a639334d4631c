//! Forks, which seal each exchange for the copy.

use futures_util::future::join;
use tower_chat_history::{
    MemoryStore,
    encryption::{EncryptedStore, MemoryVault},
};
use tower_chat_history_core::{
    Append, ConversationId, Derived, Exchange, Expect, Fork as _, ForkError, ForkTo, HistoryStore,
    HistoryStoreExt as _, Incarnation, Labels, LabelsVersion, List as _, Prune as _, PruneTo, Revision, Seq,
    StoreError,
};
use tower_chat_history_test::{Fault, FaultStore, Op};

use crate::support::{append, id, in_memory, keys, read_at, turn};

/// More than two pages of a fork.
const LONG: u64 = 250;

/// A store with faults under the wrapper.
type Faulty = EncryptedStore<FaultStore<MemoryStore>>;

/// Returns a store whose conversation `acme/anna/log` has this many exchanges, and the incarnation of the log.
async fn filled(exchanges: u64) -> (Faulty, Incarnation) {
    let store = EncryptedStore::new(FaultStore::new(MemoryStore::new()), keys(&MemoryVault::new()));
    let mut incarnation = None;
    for number in 0..exchanges {
        let appended = append(&store, &log(), turn(&number.to_string())).await;
        incarnation = Some(appended.revision.incarnation());
    }
    (store, incarnation.unwrap())
}

fn log() -> ConversationId {
    id("acme/anna/log")
}

fn copy() -> ConversationId {
    id("acme/ben/copy")
}

/// Returns the request for a copy of everything, with labels.
fn to() -> ForkTo {
    ForkTo::new(copy(), Seq::new(u64::MAX)).labels(Labels::new([("title", "a copy")]).unwrap())
}

async fn texts<S: HistoryStore>(store: &S, id: &ConversationId) -> Vec<String> {
    let messages = store.conversation(id).messages().await.unwrap();
    messages.iter().map(|message| message.text().into_owned()).collect()
}

#[tokio::test]
async fn a_copy_is_sealed_for_itself() {
    let store = in_memory();
    append(&store, &log(), turn("a")).await;
    append(&store, &log(), turn("b")).await;
    assert_eq!(store.conversation(&log()).fork(Seq::new(2), &copy()).await.unwrap(), 2);
    assert_eq!(texts(&store, &copy()).await, texts(&store, &log()).await);
    let label = |exchange: Exchange| exchange.sealed.unwrap().text().to_owned();
    for seq in [0, 1].map(Seq::new) {
        let of_log = label(read_at(store.inner(), &log(), seq).await.unwrap());
        assert_ne!(label(read_at(store.inner(), &copy(), seq).await.unwrap()), of_log);
    }
    let stored = store.inner().describe(&copy()).await.unwrap().unwrap().labels;
    assert!(stored.as_sealed().is_some() && stored.forked_from().is_none(), "the label is sealed");
    let opened = store.describe(&copy()).await.unwrap().unwrap().labels;
    assert_eq!(opened.forked_from(), Some((log(), Seq::new(2))));

    // It needs only its own keys.
    store.keys().destroy(&"acme/anna".parse().unwrap()).await.unwrap();
    assert_eq!(texts(&store, &copy()).await, ["a", "re: a", "b", "re: b"]);
}

#[tokio::test]
async fn a_long_log_is_copied_page_by_page() {
    let (store, incarnation) = filled(LONG).await;
    let kept = store.prune(&log(), incarnation, PruneTo::From(Seq::new(7)), Derived::Keep).await.unwrap();
    let reads = store.inner().calls(Op::Read);
    let forked = store.fork(&log(), incarnation, to()).await.unwrap();
    // Both revisions, the pages, and the revision of the log at the end.
    assert_eq!((forked.copied, store.inner().calls(Op::Read) - reads), (LONG - 7, 2 + 3 + 1));
    assert_eq!(
        forked.revision.map(|revision| (revision.first(), revision.next())),
        Some((Seq::new(7), Seq::new(LONG)))
    );
    assert_eq!(texts(&store, &copy()).await, texts(&store, &log()).await);
    assert_eq!(store.conversation(&log()).revision().await.unwrap(), Some(kept.revision));
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_repeated() {
    let (store, incarnation) = filled(3).await;
    for _ in 0..3 {
        store.inner().lose_answers(Op::Append, 1);
        // The repeat.
        store.inner().pass(Op::Append, 1);
    }
    assert_eq!(store.fork(&log(), incarnation, to()).await.unwrap().copied, 3);
    assert_eq!(texts(&store, &copy()).await, texts(&store, &log()).await);
}

#[tokio::test]
async fn a_failed_fork_leaves_no_part() {
    let (store, incarnation) = filled(LONG).await;
    let inner = store.inner().clone();
    let steps = [(Op::Append, 0), (Op::Append, 3), (Op::Append, 249), (Op::Read, 2), (Op::Read, 3), (Op::SetLabels, 0)];
    for (op, passed) in steps {
        inner.pass(op, passed);
        inner.fail(op, 2, Fault::Backend);
        let failed = store.fork(&log(), incarnation, to()).await;
        assert!(matches!(failed, Err(StoreError::Backend { .. })), "{op:?} {passed}: {failed:?}");
        inner.mend();
        assert_eq!(store.conversation(&copy()).revision().await.unwrap(), None, "{op:?} {passed}");
    }
    assert_eq!(store.fork(&log(), incarnation, to()).await.unwrap().copied, LONG);
}

#[tokio::test]
async fn a_part_that_cannot_be_removed_has_no_label() {
    let (store, incarnation) = filled(3).await;
    store.inner().pass(Op::Append, 2);
    store.inner().fail(Op::Append, 1, Fault::Backend);
    store.inner().fail(Op::EraseIf, 1, Fault::Unavailable);
    let failed = store.fork(&log(), incarnation, to()).await;
    assert!(matches!(failed, Err(StoreError::Backend { .. })), "{failed:?}");
    let part = store.describe(&copy()).await.unwrap().unwrap();
    assert!(part.revision.len() == 2 && part.labels.is_empty(), "{part:?}");
    let again = store.conversation(&log()).fork(Seq::new(3), &copy()).await;
    assert!(matches!(again, Err(ForkError::Exists)), "{again:?}");
    store.delete(&copy()).await.unwrap();
    assert_eq!(store.conversation(&log()).fork(Seq::new(3), &copy()).await.unwrap(), 3);
}

/// Forks, and makes this change after the first exchange is copied.
async fn changed_meanwhile(store: &Faulty, incarnation: Incarnation, change: impl Future<Output = ()>) -> StoreError {
    let hold = store.inner().hold_answers(Op::Append);
    let changing = async {
        hold.reached(1).await;
        change.await;
        hold.release();
    };
    let (failed, ()) = join(store.fork(&log(), incarnation, to()), changing).await;
    failed.unwrap_err()
}

#[tokio::test]
async fn a_part_to_which_others_append_stays() {
    let (store, incarnation) = filled(3).await;
    let other = EncryptedStore::new(store.inner().get_ref().clone(), store.keys().clone());
    let failed = changed_meanwhile(&store, incarnation, async {
        append(&other, &copy(), turn("of another caller")).await;
    })
    .await;
    assert!(matches!(failed, StoreError::Conflict { .. }), "{failed:?}");
    assert_eq!(texts(&store, &copy()).await, ["0", "re: 0", "of another caller", "re: of another caller"]);
}

#[tokio::test]
async fn a_part_that_others_label_stays() {
    let (store, incarnation) = filled(3).await;
    let other = EncryptedStore::new(store.inner().get_ref().clone(), store.keys().clone());
    let labels = Labels::new([("title", "of another caller")]).unwrap();
    let failed = changed_meanwhile(&store, incarnation, async {
        let part = other.describe(&copy()).await.unwrap().unwrap();
        other.set_labels(&copy(), part.revision.incarnation(), LabelsVersion::NONE, labels.clone()).await.unwrap();
    })
    .await;
    assert!(matches!(failed, StoreError::Conflict { .. }), "{failed:?}");
    let stays = store.describe(&copy()).await.unwrap().unwrap();
    assert_eq!((stays.labels, stays.revision.len()), (labels, 3));
}

#[tokio::test]
async fn a_part_of_a_log_that_is_deleted_meanwhile_is_removed() {
    // The shorter log has been read whole when it is deleted.
    for exchanges in [3, LONG] {
        let (store, incarnation) = filled(exchanges).await;
        let failed = changed_meanwhile(&store, incarnation, async { store.delete(&log()).await.unwrap() }).await;
        assert!(matches!(failed, StoreError::Gone), "{exchanges}: {failed:?}");
        assert_eq!(store.conversation(&copy()).revision().await.unwrap(), None, "{exchanges}");
    }
}

#[tokio::test]
async fn a_part_of_a_log_that_is_pruned_meanwhile_is_removed() {
    let (store, incarnation) = filled(LONG).await;
    let keep = PruneTo::LastTurns(1);
    let pruning = async {
        store.prune(&log(), incarnation, keep, Derived::Keep).await.unwrap();
    };
    let failed = changed_meanwhile(&store, incarnation, pruning).await;
    assert!(matches!(failed, StoreError::Gone), "{failed:?}");
    assert_eq!(store.conversation(&copy()).revision().await.unwrap(), None);
}

#[tokio::test]
async fn another_fork_of_the_same_log_is_not_mistaken_for_this_one() {
    let (store, incarnation) = filled(3).await;
    let hold = store.inner().hold(Op::Append);
    let from = log();
    let forks = join(store.fork(&from, incarnation, to()), store.fork(&from, incarnation, to()));
    let releasing = async {
        hold.reached(2).await;
        hold.release();
    };
    let ((one, other), ()) = join(forks, releasing).await;
    assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    let refused = one.err().or(other.err());
    assert!(matches!(refused, Some(StoreError::Conflict { .. })), "{refused:?}");
    assert_eq!(texts(&store, &copy()).await, texts(&store, &log()).await);
}

#[tokio::test]
async fn a_repeated_call_conflicts_with_its_own_copy() {
    let (store, incarnation) = filled(2).await;
    let to = to();
    let forked = store.fork(&log(), incarnation, to.clone()).await.unwrap();
    let repeated = store.fork(&log(), incarnation, to).await;
    let current: Option<Revision> = match repeated {
        Err(StoreError::Conflict { current }) => current,
        other => panic!("{other:?}"),
    };
    assert_eq!(current, forked.revision);
}

#[tokio::test]
async fn what_does_not_open_is_not_copied() {
    let store = in_memory();
    let appended = append(&store, &log(), turn("a")).await;
    let plain = Append::new(Expect::Exactly(appended.revision), turn("not sealed"));
    store.inner().append(&log(), plain).await.unwrap();
    let failed = store.fork(&log(), appended.revision.incarnation(), to()).await;
    assert!(matches!(failed, Err(StoreError::Corrupt { .. })), "{failed:?}");
    assert_eq!(store.conversation(&copy()).revision().await.unwrap(), None);
}
