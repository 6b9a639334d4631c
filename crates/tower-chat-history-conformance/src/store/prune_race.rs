//! Prunes at the same time as other calls, and after a reopening of the storage.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{CompactionVersion, Expect, Load, PruneTo, Seq};

use super::{Capability, Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::PRUNE_ONCE;

/// Concurrent prunes and appends lose nothing that is to be kept, and readers see logs without gaps.
pub async fn prunes_and_appends_leave_no_gap(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    let other = prunable.chat.reopened(fixture).await;
    prunable.chat.add_turns(2).await;
    let incarnation = other.incarnation().await;
    let pruning = async {
        for _ in 0..8 {
            prunable.prune(incarnation, PruneTo::LastTurns(2)).await.must("the incarnation has not ended", &CLAUSE);
            pause().await;
        }
    };
    let appending = join_all((0..3).map(|n| {
        let other = &other;
        async move {
            for _ in 0..4 {
                let expect = Expect::AnyIn(incarnation);
                other.append(expect, turn_of(&n.to_string())).await.must("it is the incarnation", &CLAUSE);
                pause().await;
            }
        }
    }));
    let reading = async {
        for _ in 0..12 {
            let window = other.window(Load::new()).await;
            let first = window.revision.first().get();
            let positions = window.exchanges.iter().map(|recorded| recorded.seq.get());
            assert!(positions.eq(first..first + window.exchanges.len() as u64), "a log with a gap: {window:?}");
            assert!(window.exchanges.len() >= 2, "less than two turns: {window:?}");
            pause().await;
        }
    };
    join(join(pruning, appending), reading).await;
    let log = prunable.chat.log().await;
    assert_eq!(log.last().map(|last| last.seq), Some(Seq::new(13)));
    assert_eq!(prunable.chat.window(Load::new()).await.exchanges, log);
}

/// Each of several concurrent prunes removes only what is left to remove.
pub async fn racing_prunes_remove_once(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let prunable = Prunable::new(fixture).await;
        let log = prunable.chat.add_turns(8).await;
        let incarnation = prunable.chat.incarnation().await;
        let mut handles = Vec::new();
        for _ in 0..3 {
            handles.push(Prunable::at(fixture, prunable.chat.id.clone()).await);
        }
        let racing = (1..7).map(|turns| handles[turns % handles.len()].prune(incarnation, PruneTo::LastTurns(turns)));
        let pruned = join_all(racing).await;
        let removed: u64 = pruned.iter().map(|pruned| pruned.as_ref().map_or(0, |pruned| pruned.removed)).sum();
        assert_eq!(removed, 7, "{pruned:?}");
        assert_eq!(prunable.chat.log().await, log[7..]);
    }
}

/// A prune whose future is dropped is done or not done.
pub async fn a_dropped_prune_is_done_or_not(fixture: &dyn Fixture) {
    for polls in 0..4 {
        let prunable = Prunable::new(fixture).await;
        let log = prunable.chat.add_turns(3).await;
        let incarnation = prunable.chat.incarnation().await;
        abandon(prunable.prune(incarnation, PruneTo::LastTurns(1)), polls).await;
        let again = prunable.keep(PruneTo::LastTurns(1)).await;
        assert!([0, 2].contains(&again.removed), "{again:?}");
        assert_eq!(prunable.chat.log().await, log[2..]);
    }
}

/// In a durable store, a prune survives a reopening: the log, its revision and its compactions are the same.
pub async fn a_prune_persists(fixture: &dyn Fixture) {
    let prunable = Prunable::new(fixture).await;
    Capability::Durable.demand(fixture).await;
    let log = prunable.chat.add_turns(5).await;
    let old = prunable.chat.revision().await;
    prunable.chat.cut(CompactionVersion::NONE, summary_to(1, "kept")).await;
    prunable.keep(PruneTo::LastTurns(2)).await;
    let before = prunable.chat.window(Load::new()).await;
    let id = prunable.chat.id.clone();
    drop(prunable);

    let prunable = Prunable::at(fixture, id).await;
    assert_eq!(prunable.chat.window(Load::new()).await, before);
    assert_eq!(prunable.chat.log().await, log[3..]);
    let landed = prunable.chat.append(Expect::Exactly(old), turn_of("in flight")).await;
    assert_eq!(landed.must("its end is the same", &CLAUSE).seq, Seq::new(5));
}
