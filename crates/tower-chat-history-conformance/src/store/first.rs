//! Logs that begin at a position other than 0.

use futures_util::future::join_all;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactionVersion, Exchange, Expect, Load, Loaded, Profile, PruneTo, Recorded, Revision,
    Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::FIRST;

/// The positions at which the logs of this group begin. A store may have 32 bits for a position.
const POSITIONS: [u64; 4] = [1, 7, 1000, 1 << 31];

/// Appends an exchange at this position, if the append creates the log.
async fn append_at(chat: &Chat, first: u64, expect: Expect, exchange: Exchange) -> Result<Appended, StoreError> {
    chat.store.append(&chat.id, Append::new(expect, exchange).beginning_at(Seq::new(first))).await
}

/// Creates a log that begins at this position, and returns its first exchange.
async fn begin(chat: &Chat, first: u64, exchange: Exchange) -> Recorded {
    let appended = append_at(chat, first, Expect::Absent, exchange.clone()).await.must("nothing is there yet", &CLAUSE);
    let incarnation = appended.revision.incarnation();
    let revision = Revision::new(incarnation, first + 1).beginning_at(Seq::new(first));
    assert_eq!(appended, Appended::stored(revision, Seq::new(first), None));
    Recorded::new(appended.seq, exchange)
}

/// Asserts that loads and reads from any position return this log.
async fn assert_log(chat: &Chat, log: &[Recorded]) {
    let first = log[0].seq;
    assert_eq!(chat.log().await, log);
    let window = chat.window(Load::new()).await;
    assert_eq!((window.exchanges.as_slice(), window.truncated), (log, false));
    assert_eq!((window.revision.first(), window.revision.len()), (first, log.len() as u64));
    for (from, skipped) in [(0, 0), (first.get(), 0), (first.get() + 1, 1), (first.get() + log.len() as u64, log.len())]
    {
        let page = chat.store.read(&chat.id, Seq::new(from), 100).await.must("the log can be read", &clause::READ);
        assert_eq!((page.revision, page.exchanges.as_slice()), (Some(window.revision), &log[skipped..]), "from {from}");
    }
}

/// The log begins at the position that its first append names, and each further exchange has the next position.
pub async fn a_log_begins_where_its_first_append_says(fixture: &dyn Fixture) {
    for first in POSITIONS {
        let chat = Chat::new(fixture).await;
        let mut log = vec![begin(&chat, first, turn_of("first")).await];
        assert_log(&chat, &log).await;
        log.extend(chat.add_turns(3).await);
        for chat in [chat.reopened(fixture).await, chat] {
            assert_log(&chat, &log).await;
        }
    }
}

/// The position has no effect on a log that exists, even if it is one that the log does not have.
pub async fn an_existing_log_keeps_its_positions(fixture: &dyn Fixture) {
    for first in [0, 5] {
        let chat = Chat::new(fixture).await;
        let mut log = vec![begin(&chat, first, turn_of("first")).await];
        for (n, named) in [0, 3, 5, 6, 1 << 40].into_iter().enumerate() {
            let revision = chat.revision().await;
            let exchange = turn_of("next");
            let appended = append_at(&chat, named, Expect::Exactly(revision), exchange.clone()).await;
            let appended = appended.must("the log is at this revision", &CLAUSE);
            assert_eq!(appended.seq, Seq::new(first + 1 + n as u64), "an append that names {named}");
            log.push(Recorded::new(appended.seq, exchange));
        }
        assert_log(&chat, &log).await;
    }
}

/// The first append can be repeated, and its exchange is found by its id.
pub async fn a_first_append_at_a_position_can_be_repeated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = [begin(&chat, 9, turn_of("first")).await];
    let id = log[0].exchange.id.clone();
    for named in [9, 0, 20] {
        let repeated = append_at(&chat, named, Expect::Absent, (*log[0].exchange).clone()).await;
        let repeated = repeated.must("a repeat is no error", &clause::IDEMPOTENT);
        assert_eq!(repeated, Appended::duplicate(chat.revision().await, Seq::new(9)));
    }
    assert_eq!(chat.load(Load::new().exchange(id)).await, Loaded::AlreadyRecorded(log[0].clone()));
    assert_log(&chat, &log).await;
}

/// Expectations hold as in a log that begins at position 0.
pub async fn expectations_hold_at_a_position(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::CONDITIONAL;
    let chat = Chat::new(fixture).await;
    begin(&chat, 9, turn_of("first")).await;
    let at = chat.revision().await;
    assert_conflict(append_at(&chat, 10, Expect::Absent, turn_of("x")).await, at);
    let known = chat.window(Load::new()).await.known();
    assert_eq!(chat.load(Load::new().known(known.clone())).await, Loaded::Unchanged);
    chat.append(Expect::Exactly(at), turn_of("second")).await.must("the log is at this revision", &CLAUSE);
    assert_conflict(chat.append(Expect::Exactly(at), turn_of("late")).await, chat.revision().await);
    assert_eq!(window(chat.load(Load::new().known(known)).await).exchanges.len(), 2);
}

/// Exchanges continue positions of the log, and those before it. The others are unknown.
pub async fn a_log_at_a_position_is_continued(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::CONTINUES;
    let chat = Chat::new(fixture).await;
    let mut log = vec![begin(&chat, 9, call_of("what is it?")).await];
    for continued in [9, 10, 3] {
        log.push(chat.add(result_for(Seq::new(continued))).await);
    }
    for beyond in [13, 14, u64::MAX] {
        let unknown = chat.append(Expect::AnyOrCreate, result_for(Seq::new(beyond))).await;
        let right = matches!(unknown, Err(StoreError::ContinuesUnknown { len: 13, .. }));
        assert!(right, "{unknown:?}, for a continuation of {beyond}");
    }
    assert_log(&chat, &log).await;
}

/// The first exchange of a log continues no position, also none before the one at which the log would begin.
pub async fn a_log_begins_with_a_turn(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::FIRST_OPENS;
    let chat = Chat::new(fixture).await;
    for (first, continued) in [(9, 9), (9, 8), (9, 0), (9, 10), (0, 0), (1, 0)] {
        for expect in [Expect::Absent, Expect::AnyOrCreate] {
            let refused = append_at(&chat, first, expect, result_for(Seq::new(continued))).await;
            let right = matches!(refused, Err(StoreError::ContinuesUnknown { continues, len })
                if continues == Seq::new(continued) && len == first);
            assert!(right, "{refused:?}, for a log that begins at {first} and continues {continued}");
            chat.assert_absent().await;
        }
    }
}

/// A limited load returns the newest turns.
pub async fn loads_at_a_position_are_limited(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIMIT;
    let chat = Chat::new(fixture).await;
    let mut log = vec![begin(&chat, 50, turn_of("first")).await];
    log.extend(chat.add_turns(4).await);
    for turns in 1..=5 {
        let window = chat.window(limit(turns * 2, usize::MAX)).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&log[5 - turns..], turns < 5));
    }
}

/// Compactions have positions of the log, also one that is stored with the first append.
pub async fn a_log_at_a_position_is_compacted(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::CUT;
    let chat = Chat::new(fixture).await;
    let exchange = turn_of("first");
    let compact = Compact::new(Profile::default(), CompactionVersion::NONE, summary_to(9, "of what was before"));
    let append = Append::new(Expect::Absent, exchange.clone()).beginning_at(Seq::new(9)).compact(compact);
    let appended = chat.store.append(&chat.id, append).await.must("the window starts at the exchange", &CLAUSE);
    let version = stored(appended.compaction);
    let mut log = vec![Recorded::new(Seq::new(9), exchange)];
    log.extend(chat.add_turns(3).await);
    assert_eq!(chat.window(Load::new()).await.exchanges, log);
    for beyond in [14, u64::MAX] {
        let refused = chat.compact(version, summary_to(beyond, "of nothing")).await;
        assert!(matches!(refused, Err(StoreError::Compaction(_))), "{refused:?}, for a window from {beyond}");
    }
    let compaction = chat.cut(version, summary_to(11, "of the first ones")).await;
    let window = chat.window(Load::new()).await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(compaction), &log[2..]));
    assert_eq!(chat.log().await, log);
}

/// After a deletion, a log begins where its own first append says.
pub async fn a_new_log_begins_somewhere_else(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for first in [7, 0, 3] {
        let log = [begin(&chat, first, turn_of("first")).await];
        assert_log(&chat, &log).await;
        chat.delete().await;
        chat.assert_absent().await;
    }
}

/// Of several racing first appends, one begins the log, and the others follow it.
pub async fn racing_first_appends_leave_no_gap(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::GAP_FREE;
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 3).await;
        let firsts: Vec<u64> = (0..6).map(|n| 10 * n).collect();
        let appends = handles.iter().cycle().zip(&firsts).map(|(chat, first)| async move {
            append_at(chat, *first, Expect::AnyOrCreate, turn_of("x")).await.must("it expects nothing", &CLAUSE)
        });
        let mut seqs: Vec<Seq> = join_all(appends).await.into_iter().map(|appended| appended.seq).collect();
        seqs.sort();
        assert!(firsts.contains(&seqs[0].get()), "{seqs:?}, of logs that begin at {firsts:?}");
        let log: Vec<Seq> = chat.log().await.iter().map(|recorded| recorded.seq).collect();
        assert_eq!(log, seqs);
    }
}

/// A log that begins at a position is truncated there, or to nothing.
pub async fn a_log_at_a_position_is_truncated(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::TRUNCATE;
    let edit = Editable::new(fixture).await;
    for from in [0, 8, 9, 10, 12] {
        let mut log = vec![begin(&edit.chat, 9, turn_of("first")).await];
        log.extend(edit.chat.add_turns(3).await);
        let remaining = edit.keep(from).await;
        if from <= 9 {
            assert_eq!(remaining, None);
            edit.chat.assert_absent().await;
            continue;
        }
        log.truncate(from as usize - 9);
        assert_log(&edit.chat, &log).await;
        log.push(edit.chat.add(turn_of("next")).await);
        assert_log(&edit.chat, &log).await;
        edit.chat.delete().await;
    }
}

/// A log that begins at a position is pruned.
pub async fn a_log_at_a_position_is_pruned(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PRUNE;
    let prunable = Prunable::new(fixture).await;
    let chat = &prunable.chat;
    let mut log = vec![begin(chat, 9, turn_of("first")).await];
    log.extend(chat.add_turns(4).await);
    for (keep, removed) in [
        (PruneTo::From(Seq::new(3)), 0),
        (PruneTo::From(Seq::new(9)), 0),
        (PruneTo::LastTurns(5), 0),
        (PruneTo::From(Seq::new(10)), 1),
        (PruneTo::LastTurns(3), 1),
        (PruneTo::LastMessages(2), 2),
    ] {
        log.drain(..removed);
        let pruned = prunable.keep(keep).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (removed as u64, log[0].seq), "{keep:?}");
        assert_log(chat, &log).await;
    }
}
