//! Appends by one caller at a time: what they expect, and what they continue.

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
