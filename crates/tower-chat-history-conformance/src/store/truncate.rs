//! Removal of the end of a log, in stores that can truncate.

use tower_chat_history_core::{
    CompactionVersion, Expect, Incarnation, Load, Loaded, Recorded, Revision, Seq, StoreError, Truncated,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::TRUNCATE;

/// Exchanges before the position stay, the others are removed, and other handles see it.
pub async fn the_end_of_the_log_is_removed(fixture: &dyn Fixture) {
    for keep in 1..4 {
        let edit = Editable::new(fixture).await;
        let chat = &edit.chat;
        let log = chat.add_turns(4).await;
        let old = chat.revision().await;
        let truncated = edit.truncate(old, keep).await.must("the log is at this revision", &CLAUSE);
        assert_eq!(truncated.removed, 4 - keep);
        for chat in [chat, &chat.reopened(fixture).await] {
            let window = chat.window(Load::new()).await;
            assert_eq!(Some(window.revision), truncated.revision);
            assert_eq!(window.exchanges, log[..keep as usize]);
            assert_eq!(window.log_bytes, bytes_of(&log[..keep as usize]));
            assert_eq!(chat.log().await, log[..keep as usize]);
        }
    }
}

/// The remaining log is in a new incarnation, so a state known from before is not known any more.
pub async fn the_rest_is_in_a_new_incarnation(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut known = Vec::new();
    for _ in 0..3 {
        chat.add_turns(2).await;
        known.push(chat.window(Load::new()).await.known());
        let revision = edit.keep(1).await.must("an exchange stays", &CLAUSE);
        assert!(known.iter().all(|known| known.revision.incarnation() != revision.incarnation()), "{revision:?} again");
        for known in &known {
            let window = chat.window(Load::new().known(known.clone())).await;
            assert_eq!((window.revision, window.exchanges.len()), (revision, 1));
        }
        known.push(chat.window(Load::new()).await.known());
        assert_eq!(chat.load(Load::new().known(known[known.len() - 1].clone())).await, Loaded::Unchanged);
    }
}

/// The log continues where it was truncated, without a gap, and under every matching condition.
pub async fn the_log_continues_where_it_was_truncated(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = chat.add_turns(5).await;
    log.truncate(2);
    let revision = edit.keep(2).await.must("exchanges stay", &CLAUSE);
    let mut revisions = vec![revision];
    for expect in [Expect::Exactly(revision), Expect::AnyIn(revision.incarnation()), Expect::AnyOrCreate] {
        let exchange = turn_of("instead");
        let appended = chat.append(expect, exchange.clone()).await.must("the expectation fits", &CLAUSE);
        assert_eq!((appended.seq, appended.duplicate), (Seq::new(log.len() as u64), false));
        assert_eq!(appended.revision.incarnation(), revision.incarnation());
        assert!(!revisions.contains(&appended.revision), "{:?} a second time", appended.revision);
        revisions.push(appended.revision);
        log.push(Recorded::new(appended.seq, exchange));
    }
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
    assert_eq!(chat.log().await, log);
}

/// A stale revision, one that never existed, and one of an ended incarnation are refused, and nothing is removed.
pub async fn only_the_seen_revision_is_truncated(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE_ONCE;
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    chat.add_turns(2).await;
    let stale = chat.revision().await;
    chat.add_turns(1).await;
    let before = chat.window(Load::new()).await;
    let never = Revision::new(stale.incarnation(), u64::from(u32::MAX));
    // The revision is checked first, whatever the position is.
    for from in [0, 1, 3, 9] {
        for wrong in [stale, never] {
            assert_conflict(edit.truncate(wrong, from).await, before.revision);
        }
        let foreign = Revision::new(Incarnation::random(), before.revision.version());
        assert_gone(edit.truncate(foreign, from).await);
    }
    assert_eq!(chat.window(Load::new()).await, before);
}

/// A truncation that is repeated because its answer was lost is refused, and removes nothing twice.
pub async fn a_repeat_removes_nothing_twice(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE_ONCE;
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    chat.add_turns(4).await;
    let old = chat.revision().await;
    edit.truncate(old, 2).await.must("the log is at this revision", &CLAUSE);
    let before = chat.window(Load::new()).await;
    for from in [2, 1, 0, 9] {
        assert_gone(edit.truncate(old, from).await);
    }
    assert_eq!(chat.window(Load::new()).await, before);
    assert_eq!(chat.log().await.len(), 2);
}

/// If there is no conversation, every truncation is refused with `Gone`, and creates nothing.
pub async fn an_absent_log_is_gone(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    assert_gone(edit.truncate(Revision::new(Incarnation::random(), 1), 0).await);
    chat.assert_absent().await;
    chat.add_turns(2).await;
    let dead = chat.revision().await;
    chat.delete().await;
    assert_gone(edit.truncate(dead, 1).await);
    chat.assert_absent().await;
}

/// Position 0 removes the conversation, like a deletion: a new one starts from the beginning.
pub async fn position_0_removes_the_conversation(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let log = chat.add_turns(3).await;
    let small = profile("small");
    chat.cut(CompactionVersion::NONE, summary_to(1, "secret")).await;
    let cut = summary_to(2, "secret");
    chat.compact_as(&small, CompactionVersion::NONE, cut).await.must("the cut is legal", &CLAUSE);
    let dead = chat.revision().await;
    assert_eq!(edit.truncate(dead, 0).await.must("nothing changed", &CLAUSE), Truncated::new(None, 3));
    chat.assert_absent().await;
    chat.reopened(fixture).await.assert_absent().await;
    assert_gone(chat.append(Expect::AnyIn(dead.incarnation()), turn_of("late")).await);
    let again = chat.append(Expect::Absent, (*log[2].exchange).clone()).await.must("nothing is there", &CLAUSE);
    assert_eq!((again.seq, again.duplicate), (Seq::FIRST, false));
    assert_ne!(again.revision.incarnation(), dead.incarnation());
    assert_eq!(chat.window(Load::new()).await.compaction, None);
    assert_eq!(chat.compaction(&small).await, None);
}

/// If there is no exchange at the position, nothing is removed and nothing changes.
pub async fn a_position_beyond_the_end_removes_nothing(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let log = chat.add_turns(3).await;
    chat.cut(CompactionVersion::NONE, summary_to(1, "kept")).await;
    let before = chat.window(Load::new()).await;
    // The same holds for the largest positions, even if a narrower integer would cut them off.
    for from in [3, 4, 1 << 31, 1 << 32, (1 << 32) + 1, u64::MAX] {
        let truncated = edit.truncate(before.revision, from).await.must("nothing changed", &CLAUSE);
        assert_eq!(truncated, Truncated::new(Some(before.revision), 0));
    }
    assert_eq!(chat.load(Load::new().known(before.known())).await, Loaded::Unchanged);
    assert_eq!(chat.log().await, log);
}

/// Removed exchange ids may be used again. The remaining ones are recognized.
pub async fn removed_ids_are_free_again(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let mut log = chat.add_turns(4).await;
    let revision = edit.keep(2).await.must("exchanges stay", &CLAUSE);
    for recorded in &log[..2] {
        let asked = Load::new().exchange(recorded.exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(recorded.clone()));
        let repeated = chat.append(Expect::Absent, (*recorded.exchange).clone()).await.must("it is recorded", &CLAUSE);
        assert_eq!((repeated.duplicate, repeated.seq, repeated.revision), (true, recorded.seq, revision));
    }
    // Appended in reverse order, so that they get other positions.
    let removed = log.split_off(2);
    for recorded in removed.iter().rev() {
        window(chat.load(Load::new().exchange(recorded.exchange.id.clone())).await);
        log.push(chat.add((*recorded.exchange).clone()).await);
    }
    assert_eq!(chat.log().await, log);
}

/// A position within a turn leaves the turn open: it can be continued again, but not at a removed exchange.
pub async fn a_truncation_within_a_turn_leaves_it_open(fixture: &dyn Fixture) {
    let edit = Editable::new(fixture).await;
    let chat = &edit.chat;
    let call = chat.add(call_of("what is it?")).await;
    let continuation = chat.add(result_for(call.seq)).await;
    chat.add(turn_of("next")).await;
    let revision = edit.keep(1).await.must("the call stays", &CLAUSE);
    assert_eq!(chat.window(Load::new()).await.exchanges, std::slice::from_ref(&call));
    let unknown = chat.append(Expect::Exactly(revision), result_for(continuation.seq)).await;
    let right =
        matches!(unknown, Err(StoreError::ContinuesUnknown { continues, len: 1 }) if continues == continuation.seq);
    assert!(right, "{unknown:?}");
    let again = chat.add(result_for(call.seq)).await;
    assert_eq!(again.seq, continuation.seq);
    assert_eq!(chat.window(Load::new()).await.exchanges, [call, again]);
}

/// Only one conversation is truncated, even if others have the same exchange ids and profiles.
pub async fn other_conversations_stay(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LOSSLESS;
    let edit = Editable::new(fixture).await;
    let others = [edit.chat.other(), edit.chat.other()];
    let mut before = Vec::new();
    let exchanges = [turn_of("a"), turn_of("b"), turn_of("c")];
    for chat in [&others[0], &edit.chat, &others[1]] {
        for exchange in &exchanges {
            chat.add(exchange.clone()).await;
        }
        chat.cut(CompactionVersion::NONE, summary_to(2, "kept")).await;
        before.push((chat.window(Load::new()).await, chat.log().await));
    }
    edit.keep(1).await;
    for (chat, before) in others.iter().zip([&before[0], &before[2]]) {
        assert_eq!((&chat.window(Load::new()).await, &chat.log().await), (&before.0, &before.1));
        let repeated = chat.append(Expect::Absent, exchanges[2].clone()).await.must("it is recorded", &CLAUSE);
        assert!(repeated.duplicate, "{repeated:?}");
    }
    edit.keep(0).await;
    for (chat, before) in others.iter().zip([&before[0], &before[2]]) {
        assert_eq!((&chat.window(Load::new()).await, &chat.log().await), (&before.0, &before.1));
    }
}
