//! Logs that begin at a position other than 0.

use super::support::*;

/// The positions at which the logs of this group begin. A store may have 32 bits for a position.
const POSITIONS: [u64; 5] = [1, 7, 0, 1000, 1 << 31];

/// Appends an exchange at this position, if the append creates the log.
async fn append_at(chat: &Chat, first: u64, expect: Expect, exchange: Exchange) -> Result<Appended, StoreError> {
    chat.submit(Append::new(expect, exchange).beginning_at(Seq::new(first))).await
}

/// Creates a log that begins at this position, and returns its first exchange.
async fn begin(chat: &Chat, first: u64, exchange: Exchange) -> Recorded {
    let appended = append_at(chat, first, Expect::Absent, exchange.clone()).await.unwrap();
    let revision = Revision::new(appended.revision.incarnation(), first + 1).beginning_at(Seq::new(first));
    assert_eq!(appended, Appended::stored(revision, Seq::new(first), None));
    Recorded::new(appended.seq, exchange)
}

/// Creates a log of turns that begins at this position.
async fn begin_turns(chat: &Chat, first: u64, turns: usize) -> Vec<Recorded> {
    let mut log = vec![begin(chat, first, turn_of("first")).await];
    log.extend(chat.add_turns(turns - 1).await);
    log
}

/// Asserts that loads and reads from any position return this log.
async fn assert_log(chat: &Chat, log: &[Recorded]) {
    chat.assert_log(log).await;
    let first = log[0].seq;
    let revision = chat.revision().await;
    assert_eq!((revision.first(), revision.len()), (first, log.len() as u64));

    let (begin, end) = (first.get(), revision.next().get());
    for (from, skipped) in [(0, 0), (begin, 0), (begin + 1, 1), (end, log.len())] {
        let page = chat.read(from, 100).await;
        assert_eq!((page.revision, page.exchanges.as_slice()), (Some(revision), &log[skipped..]), "from {from}");
    }
}

/// The log begins at the position that its first append names, and each further exchange has the next position. The
/// first append can be repeated, and its exchange is found by its id. After a deletion, a log begins somewhere else.
pub async fn a_log_begins_where_its_first_append_says(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for first in POSITIONS {
        let mut log = vec![begin(&chat, first, turn_of("first")).await];
        assert_log(&chat, &log).await;
        for named in [first, 0, 20] {
            let repeated = append_at(&chat, named, Expect::Absent, (*log[0].exchange).clone()).await.unwrap();
            assert_eq!(repeated, Appended::duplicate(chat.revision().await, Seq::new(first)));
        }
        chat.assert_recorded(&log[0]).await;

        log.extend(chat.add_turns(3).await);
        for chat in [&chat, &chat.reopened(fixture).await] {
            assert_log(chat, &log).await;
        }
        chat.delete().await;
        chat.assert_absent().await;
    }
}

/// The position has no effect on a log that exists, even if it is one that the log does not have.
pub async fn an_existing_log_keeps_its_positions(fixture: &dyn Fixture) {
    for first in [0, 5] {
        let chat = Chat::new(fixture).await;
        let mut log = vec![begin(&chat, first, turn_of("first")).await];
        for named in [0, 3, 5, 6, 1 << 40] {
            let exchange = turn_of("next");
            let expect = Expect::Exactly(chat.revision().await);
            let appended = append_at(&chat, named, expect, exchange.clone()).await.unwrap();
            assert_eq!(appended.seq, Seq::new(first + log.len() as u64), "an append that names {named}");
            log.push(Recorded::new(appended.seq, exchange));
        }
        assert_log(&chat, &log).await;
    }
}

/// Expectations and known states hold as in a log that begins at position 0.
pub async fn expectations_hold_at_a_position(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    begin(&chat, 9, turn_of("first")).await;
    let known = chat.now().await;
    assert_conflict(append_at(&chat, 10, Expect::Absent, turn_of("x")).await, known.revision);
    chat.assert_unchanged(&known).await;

    let expect = Expect::Exactly(known.revision);
    chat.append(expect, turn_of("second")).await.unwrap();
    assert_conflict(chat.append(expect, turn_of("late")).await, chat.revision().await);
    assert_eq!(chat.window(Load::new().known(known.known())).await.exchanges.len(), 2);
}

/// Exchanges continue positions of the log, and those before it. The others are unknown.
pub async fn a_log_at_a_position_is_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = vec![begin(&chat, 9, call_of("what is it?")).await];
    for continued in [9, 10, 3] {
        log.push(chat.add(result_for(Seq::new(continued))).await);
    }
    for beyond in [13, 14, u64::MAX] {
        assert_unknown(chat.append(Expect::AnyOrCreate, result_for(Seq::new(beyond))).await, beyond, 13);
    }
    assert_log(&chat, &log).await;
}

/// The first exchange of a log continues no position, also none before the one at which the log would begin.
pub async fn a_log_begins_with_a_turn(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for (first, continued) in [(9, 9), (9, 8), (9, 0), (9, 10), (0, 0), (1, 0)] {
        for expect in FIRST_TURN {
            let refused = append_at(&chat, first, expect, result_for(Seq::new(continued))).await;
            assert_unknown(refused, continued, first);
            chat.assert_absent().await;
        }
    }
}

/// A limited load returns the newest turns.
pub async fn loads_at_a_position_are_limited(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = begin_turns(&chat, 50, 5).await;
    for turns in 1..=5 {
        let window = chat.window(limit(turns * 2, MANY)).await;
        assert_eq!((window.exchanges.as_slice(), window.truncated), (&log[5 - turns..], turns < 5));
    }
}

/// Compactions have positions of the log, also one that is stored with the first append.
pub async fn a_log_at_a_position_is_compacted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let exchange = turn_of("first");
    let append = Append::new(Expect::Absent, exchange.clone()).beginning_at(Seq::new(9));
    let appended = chat.submit(append.compact(compact(NONE, summary_to(9, "of what was before")))).await.unwrap();
    let version = stored(appended.compaction);
    let mut log = vec![Recorded::new(Seq::new(9), exchange)];
    log.extend(chat.add_turns(3).await);
    assert_eq!(chat.now().await.exchanges, log);

    let compaction = chat.cut(version, summary_to(11, "of the first ones")).await;
    let window = chat.now().await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(compaction), &log[2..]));
    assert_eq!(chat.log().await, log);
}

/// Of several racing first appends, one begins the log, and the others follow it.
pub async fn racing_first_appends_leave_no_gap(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 3).await;
        let firsts = [0, 10, 20, 30, 40, 50];
        let appends = handles.iter().cycle().zip(firsts).map(|(chat, first)| async move {
            append_at(chat, first, Expect::AnyOrCreate, turn_of("x")).await.unwrap().seq
        });
        let mut seqs = join_all(appends).await;
        seqs.sort();
        assert!(firsts.contains(&seqs[0].get()), "{seqs:?}");
        let log: Vec<Seq> = chat.log().await.iter().map(|recorded| recorded.seq).collect();
        assert_eq!(log, seqs);
    }
}

/// A log that begins at a position is truncated there, or to nothing.
pub async fn a_log_at_a_position_is_truncated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    for from in [0, 8, 9, 10, 12] {
        let mut log = begin_turns(&chat, 9, 4).await;
        let remaining = chat.shorten_to(from).await;
        if from <= 9 {
            assert_eq!(remaining, None);
            chat.assert_absent().await;
            continue;
        }

        log.truncate(from as usize - 9);
        assert_log(&chat, &log).await;
        log.push(chat.add(turn_of("next")).await);
        assert_log(&chat, &log).await;
        chat.delete().await;
    }
}

/// A log that begins at a position is pruned.
pub async fn a_log_at_a_position_is_pruned(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = begin_turns(&chat, 9, 5).await;
    for (keep, removed) in [
        (PruneTo::From(Seq::new(3)), 0),
        (PruneTo::From(Seq::new(9)), 0),
        (PruneTo::LastTurns(5), 0),
        (PruneTo::From(Seq::new(10)), 1),
        (PruneTo::LastTurns(3), 1),
        (PruneTo::LastMessages(2), 2),
    ] {
        log.drain(..removed);
        let pruned = chat.prune(keep).await;
        assert_eq!((pruned.removed, pruned.revision.first()), (removed as u64, log[0].seq), "{keep:?}");
        assert_log(&chat, &log).await;
    }
}
