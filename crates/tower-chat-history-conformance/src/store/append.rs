//! Appends by one caller at a time: what they expect, what they continue, their repeats, and where a log begins.

use super::support::*;

/// The first append creates the conversation, at position 0.
pub async fn the_first_append_creates_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.assert_absent().await;

    let exchange = turn_of("hello");
    let appended = chat.append(Expect::Absent, exchange.clone()).await.unwrap();
    assert_eq!(appended, Appended::stored(appended.revision, Seq::FIRST, None));

    let window = chat.now().await;
    assert_eq!((window.revision, window.compaction), (appended.revision, None));
    chat.assert_log(&[Recorded::new(Seq::FIRST, exchange)]).await;
}

/// The next append succeeds with the revision that the previous one returned, and with every other matching condition.
/// Each append gives the log a revision that it never had, in the same incarnation.
pub async fn fitting_expectations_are_accepted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut revision = chat.append(Expect::AnyOrCreate, turn_of("first")).await.unwrap().revision;
    let mut seen = vec![revision];
    for n in 1..10 {
        let in_incarnation = Expect::AnyIn(revision.incarnation());
        let expect = [Expect::Exactly(revision), in_incarnation, Expect::AnyOrCreate][n % 3];
        let appended = chat.append(expect, turn_of("next")).await.unwrap();
        assert_eq!(appended.seq, Seq::new(n as u64));
        assert_eq!(appended.revision.incarnation(), revision.incarnation());
        assert!(!seen.contains(&appended.revision), "the revision {} comes a second time", appended.revision);

        revision = appended.revision;
        assert_eq!(chat.revision().await, revision);
        seen.push(revision);
    }
    assert_eq!(chat.log().await.len(), 10);
}

/// Another handle sees an append immediately.
pub async fn an_append_is_seen_by_other_handles(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    let first = chat.add(turn_of("from one")).await;
    assert_eq!(other.log().await, std::slice::from_ref(&first));

    let second = other.add(turn_of("from the other")).await;
    assert_eq!(chat.log().await, [first, second]);
    assert_eq!(chat.revision().await, other.revision().await);
}

/// An append conflicts if it expects no conversation, an earlier revision, or one that the log never had, however large
/// its number is. The error names the current revision if the store knows it.
pub async fn other_revisions_conflict(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    let stale = chat.revision().await;
    chat.add_turns(2).await;
    let log = chat.log().await;
    let at = chat.revision().await;

    let never = Revision::new(at.incarnation(), u64::MAX);
    for expect in [Expect::Absent, Expect::Exactly(stale), Expect::Exactly(never)] {
        assert_conflict(chat.append(expect, turn_of("late")).await, at);
    }
    assert_eq!(chat.log().await, log);
}

/// A refused append changes neither the log nor the revision, and its exchange id stays free.
pub async fn a_conflict_changes_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(2).await;
    let before = chat.now().await;
    let refused = turn_of("refused");
    assert_conflict(chat.append(Expect::Absent, refused.clone()).await, before.revision);
    assert_eq!(chat.now().await, before);

    let load = Load::new().known(before.known()).exchange(refused.id.clone());
    assert_eq!(chat.load(load).await, Loaded::Unchanged, "the refused exchange is not recorded");
    log.push(chat.add(refused).await);
    assert_eq!(chat.log().await, log);
}

/// An append that expects another incarnation, or a revision of one, is refused with `Gone`. If there is no
/// conversation, it creates none.
pub async fn another_incarnation_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = Incarnation::random();
    for version in [0, 1] {
        assert_gone(chat.append(Expect::Exactly(Revision::new(other, version)), turn_of("x")).await);
    }
    assert_gone(chat.append(Expect::AnyIn(other), turn_of("x")).await);
    chat.assert_absent().await;

    let log = chat.add_turns(1).await;
    let same_version = Revision::new(other, chat.revision().await.version());
    assert_gone(chat.append(Expect::Exactly(same_version), turn_of("x")).await);
    assert_gone(chat.append(Expect::AnyIn(other), turn_of("x")).await);
    assert_eq!(chat.log().await, log);
}

/// A continuation names the exchange that it continues, even with other exchanges in between.
pub async fn a_continuation_keeps_what_it_answers(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(0).await;
    log.push(chat.add(turn_of("never mind")).await);
    for _ in 0..2 {
        log.push(chat.add(result_for(Seq::FIRST)).await);
    }
    assert!(log[2].is_moved(), "{:?}", log[2]);
    chat.assert_log(&log).await;
}

/// A position beyond the log cannot be continued, not even the exchange's own position. Nothing is stored.
pub async fn an_unknown_position_cannot_be_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let before = chat.now().await;
    let in_incarnation = Expect::AnyIn(before.revision.incarnation());
    for continues in [2, 3, u64::MAX] {
        for expect in [in_incarnation, Expect::Exactly(before.revision), Expect::AnyOrCreate] {
            assert_unknown(chat.append(expect, result_for(Seq::new(continues))).await, continues, 2);
        }
    }
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.now().await, before);
}

/// A conversation cannot begin with a continuation. The id of the refused continuation stays free.
pub async fn an_absent_conversation_cannot_be_continued(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let early = result_for(Seq::FIRST);
    for expect in FIRST_TURN {
        assert_unknown(chat.append(expect, early.clone()).await, 0, 0);
    }
    chat.assert_absent().await;

    let mut log = chat.add_call(0).await;
    log.push(chat.add(early).await);
    assert_eq!(chat.log().await, log);
}

// Appends that are repeated under their exchange id.

/// More exchanges than a store would remember if it remembered only the newest ids.
const LONG_LOG: usize = 300;

/// A repeated append stores nothing and returns the recorded position, whatever it expects. So does a repeated first
/// turn.
pub async fn a_repeat_stores_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let first = turn_of("once");
    chat.append(Expect::Absent, first.clone()).await.unwrap();
    let mut log = vec![Recorded::new(Seq::FIRST, first)];
    chat.assert_repeat(Expect::Absent, &log[0]).await;

    log.extend(chat.add_turns(1).await);
    let stale = chat.revision().await;
    log.extend(chat.add_turns(2).await);
    let now = chat.revision().await;
    for expect in [
        Expect::AnyOrCreate,
        Expect::AnyIn(now.incarnation()),
        Expect::AnyIn(Incarnation::random()),
        Expect::Exactly(now),
        Expect::Exactly(stale),
        Expect::Exactly(Revision::new(Incarnation::random(), 1)),
        Expect::Absent,
    ] {
        chat.assert_repeat(expect, &log[2]).await;
    }
    assert_eq!(chat.log().await, log);
    assert_eq!(chat.revision().await, now);
}

/// Only the id matters: the other contents of a repeat are neither stored nor checked, also its recalled messages and
/// its provenance.
pub async fn a_repeat_does_not_change_what_is_recorded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let recalled = super::content::recalling("x", &[0]).recalled;
    let provenance = super::content::made_after("x").provenance;
    let derived = with!(turn_of("x"), recalled: recalled.clone(), provenance: provenance.clone());
    let log = chat.add_all([turn_of("x"), turn_of("y"), derived]).await;
    for (recorded, recalled, provenance) in [(&log[1], recalled, provenance), (&log[2], None, None)] {
        let mut other = Exchange::new(recorded.exchange.id.clone(), [Message::user("other")]).continuing(Seq::new(99));
        other.model = Some("other".into());
        other.recalled = recalled;
        other.provenance = provenance;
        for start in [1, 99] {
            let appended = chat.append_with(other.clone(), NONE, window_from(start)).await.unwrap();
            assert_eq!(appended, Appended::duplicate(chat.revision().await, recorded.seq));
        }
    }
    chat.assert_log(&log).await;
    assert_eq!(chat.compaction().await, None);
}

/// Racing repeats store the exchange once, and all return the same position.
pub async fn racing_repeats_store_once(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 4).await;
    for round in 0..4 {
        // The first round also creates the conversation.
        let exchange = turn_of(&format!("round {round}"));
        let repeats = handles.iter().cycle().take(12).map(|chat| chat.append(Expect::AnyOrCreate, exchange.clone()));
        let mut stored = 0;
        for appended in join_all(repeats).await {
            let appended = appended.unwrap();
            assert_eq!(appended.seq, Seq::new(round));
            stored += u64::from(!appended.duplicate);
        }
        assert_eq!(stored, 1);
        assert_eq!(chat.log().await.len() as u64, round + 1);
    }
}

/// An exchange id belongs to its conversation: another conversation may use the same one.
pub async fn ids_belong_to_their_conversation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    let exchange = turn_of("the same");
    other.add(turn_of("before")).await;
    let first = chat.add(exchange.clone()).await;
    let second = other.add(exchange).await;
    assert_eq!((first.seq, second.seq), (Seq::FIRST, Seq::new(1)));

    other.assert_repeat(Expect::Absent, &second).await;
    chat.assert_repeat(Expect::Absent, &first).await;
}

/// Exchange ids are compared byte by byte: case, prefixes and wildcards make different ids.
pub async fn similar_ids_are_different(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let long = "x".repeat(ExchangeId::MAX_LEN - 1);
    let ids =
        ["a", "A", "ab", "a%", "a_", "a*", "a?", "a'", "a\"", "a\\", "a/b", "a:b", "1", "01", "1.0", "{}", "null"];
    for id in ids.into_iter().chain([&*long, &format!("{long}x"), &format!("{long}y")]) {
        let id = ExchangeId::new(id).unwrap();
        let recorded = chat.add(Exchange::new(id.clone(), [Message::user(id.as_str())])).await;
        chat.assert_repeat(Expect::Absent, &recorded).await;
        chat.assert_recorded(&recorded).await;
    }
}

/// Hundreds of single appends are in order. An append and a load recognize an exchange id, however many exchanges came
/// after it.
pub async fn a_repeat_is_recognized_in_a_long_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(LONG_LOG).await;
    assert_eq!(log[LONG_LOG - 1].seq, Seq::new(LONG_LOG as u64 - 1));
    for recorded in [&log[0], &log[1], &log[LONG_LOG / 2]] {
        chat.assert_repeat(Expect::AnyOrCreate, recorded).await;
        chat.assert_recorded(recorded).await;
    }
    assert_eq!(chat.log().await, log);
}

// Logs that begin at a position other than 0.

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

    let begin = first.get();
    let end = revision.next().get();
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
