//! Truncations at the same time as other calls, and after a reopening of the storage.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{CompactionVersion, Expect, Load, Recorded, Seq, StoreError};

use super::{Capability, Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::TRUNCATE_ONCE;

/// An append begun before a truncation is refused after it: it is not stored at the end of the truncated log.
pub async fn an_append_in_flight_is_gone(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let log = chat.add_turns(3).await;
    let old = chat.revision().await;
    edit.keep(2).await;
    let late = turn_of("late");
    // Also when the log has its former length again.
    for len in [2, 3] {
        for expect in [Expect::AnyIn(old.incarnation()), Expect::Exactly(old)] {
            assert_gone(chat.append(expect, late.clone()).await);
            assert_gone(chat.append(expect, (*log[2].exchange).clone()).await);
            assert_gone(chat.append(expect, result_for(Seq::new(2))).await);
        }
        assert_eq!(chat.log().await.len(), len);
        chat.add(turn_of("instead")).await;
    }
    assert_eq!(chat.log().await[..2], log[..2]);
}

/// Of several truncations that saw the same revision, exactly one succeeds. The others are refused and remove nothing.
pub async fn one_truncation_wins(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let edit = Editable::new(fixture).await;
        let log = edit.chat.add_turns(6).await;
        let revision = edit.chat.revision().await;
        let mut handles = Vec::new();
        for _ in 0..3 {
            handles.push(Editable::at(fixture, edit.chat.id.clone()).await);
        }
        let racing = (1..6).map(|keep| {
            let handle = &handles[keep as usize % handles.len()];
            async move { (keep, handle.truncate(revision, keep).await) }
        });
        let mut won = Vec::new();
        for (keep, result) in join_all(racing).await {
            match result {
                Ok(truncated) => won.push((keep, truncated)),
                refused => assert_gone(refused),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let (keep, truncated) = won[0];
        assert_eq!(truncated.removed, 6 - keep);
        assert_eq!(edit.chat.log().await, log[..keep as usize]);
        assert_eq!(Some(edit.chat.revision().await), truncated.revision);
    }
}

/// A race of a truncation and an append has two possible results: the append is stored and nothing was removed, or the
/// log was truncated and the append is refused with `Gone`.
pub async fn a_racing_append_lands_before_or_not_at_all(fixture: &dyn Fixture) {
    // One of the two comes a little later each time.
    for wait in 0..8_usize {
        let edit = Editable::new(fixture).await;
        let other = edit.chat.reopened(fixture).await;
        let mut log = edit.chat.add_turns(3).await;
        let revision = edit.chat.revision().await;
        let late = turn_of("late");
        let cutting = async {
            for _ in 0..wait.saturating_sub(4) {
                pause().await;
            }
            edit.truncate(revision, 1).await
        };
        let appending = async {
            for _ in 0..4_usize.saturating_sub(wait) {
                pause().await;
            }
            other.append(Expect::AnyIn(revision.incarnation()), late.clone()).await
        };
        match join(cutting, appending).await {
            (Ok(truncated), appended) => {
                assert_gone(appended);
                assert_eq!(truncated.removed, 2);
                log.truncate(1);
            }
            (cut, Ok(appended)) => {
                assert_conflict(cut, appended.revision);
                log.push(Recorded::new(appended.seq, late));
            }
            (cut, appended) => unexpected!("the truncation or the append to be done, and not both", (cut, appended)),
        }
        assert_eq!(edit.chat.log().await, log);
    }
}

/// Callers that repeatedly read, truncate and append leave a log without gaps, and readers see states that existed.
pub async fn edits_and_appends_leave_no_gap(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let other = edit.chat.reopened(fixture).await;
    let first = edit.chat.add_turns(2).await;
    let cutting = async {
        for _ in 0..6 {
            let at = edit.chat.revision().await;
            pause().await;
            match edit.truncate(at, 2).await {
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(other) => unexpected!("it to be done, or the refusal `Conflict`", other),
            }
        }
    };
    let appending = join_all((0..3).map(|n| {
        let other = &other;
        async move {
            for _ in 0..4 {
                let incarnation = other.incarnation().await;
                pause().await;
                match other.append(Expect::AnyIn(incarnation), turn_of(&n.to_string())).await {
                    Ok(_) | Err(StoreError::Gone) => {}
                    Err(other) => unexpected!("it to be done, or the refusal `Gone`", other),
                }
            }
        }
    }));
    let reading = async {
        for _ in 0..12 {
            let window = other.window(Load::new()).await;
            assert!(window.exchanges.starts_with(&first), "{window:?}, without what stays");
            let positions = window.exchanges.iter().map(|recorded| recorded.seq.get());
            assert!(positions.eq(0..window.exchanges.len() as u64), "a log with a gap: {window:?}");
            pause().await;
        }
    };
    join(join(cutting, appending), reading).await;
    // Reading checks that there is no gap.
    let log = edit.chat.log().await;
    assert!(log.starts_with(&first), "{log:?}");
    assert_eq!(edit.chat.window(Load::new()).await.exchanges, log);
}

/// A truncation whose future is dropped is done or not done.
pub async fn a_dropped_truncation_is_done_or_not(fixture: &dyn Fixture) {
    for polls in 0..4 {
        let edit = Editable::new(fixture).await;
        let log = edit.chat.add_turns(3).await;
        let revision = edit.chat.revision().await;
        abandon(edit.truncate(revision, 1), polls).await;
        match edit.truncate(revision, 1).await {
            Ok(truncated) => assert_eq!(truncated.removed, 2),
            gone => assert_gone(gone),
        }
        assert_eq!(edit.chat.log().await, log[..1]);
    }
}

/// In a durable store, a truncation survives a reopening: the log, its revision and its compactions are the same.
pub async fn a_truncation_persists(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    Capability::Durable.demand(fixture).await;
    let small = profile("small");
    let none = CompactionVersion::NONE;
    let log = edit.chat.add_turns(5).await;
    let old = edit.chat.revision().await;
    edit.chat.cut(none, summary_to(1, "kept")).await;
    edit.chat.compact_as(&small, none, summary_to(4, "removed")).await.must("the cut is legal", &CLAUSE);
    edit.keep(3).await;
    let before = edit.chat.window(Load::new()).await;
    let id = edit.chat.id.clone();
    drop(edit);

    let edit = Editable::at(fixture, id).await;
    assert_eq!(edit.chat.window(Load::new()).await, before);
    assert_eq!(edit.chat.compaction(&small).await, None);
    assert_eq!(edit.chat.log().await, log[..3]);
    assert_gone(edit.truncate(old, 1).await);
    assert_gone(edit.chat.append(Expect::AnyIn(old.incarnation()), turn_of("late")).await);
    let again = edit.chat.append(Expect::Exactly(before.revision), (*log[4].exchange).clone()).await;
    assert_eq!(again.must("its id is free", &CLAUSE).seq, Seq::new(3));
}
