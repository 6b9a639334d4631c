//! Removal of the end of a log, in stores that can truncate, and what it does to compactions. A truncation to nothing
//! counts as a deletion.

use super::{
    deletion::{assert_later, assert_refused, neighbors, others_land},
    load::assert_media_are_counted,
    support::*,
};

/// Exchanges before the position stay, the others are removed, and other handles see it. The remaining log is in a new
/// incarnation, so a state known from before is not known any more. The log continues where it was truncated, without a
/// gap, and under every matching condition.
pub async fn the_end_of_the_log_is_removed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(4).await;
    let mut known: Vec<KnownState> = Vec::new();
    for keep in [3, 2, 1] {
        known.push(chat.now().await.known());
        let removed = log.len() as u64 - keep;
        let truncated = chat.truncate(chat.revision().await, keep).await.unwrap();
        let revision = truncated.revision.unwrap();
        assert_eq!(truncated.removed, removed);
        log.truncate(keep as usize);
        for chat in [&chat, &chat.reopened(fixture).await] {
            let window = chat.now().await;
            assert_eq!((window.revision, window.log_bytes), (revision, bytes_of(&log)));
            chat.assert_unchanged(&window).await;
            chat.assert_log(&log).await;
            for known in &known {
                assert_ne!(known.revision.incarnation(), revision.incarnation());
                for load in [Load::new(), Load::new().or_added()] {
                    assert_eq!(chat.window(load.known(known.clone())).await, window);
                }
            }
        }

        let mut seen = vec![revision];
        for expect in [Expect::Exactly(revision), Expect::AnyIn(revision.incarnation()), Expect::AnyOrCreate] {
            let exchange = turn_of("instead");
            let appended = chat.append(expect, exchange.clone()).await.unwrap();
            assert_eq!((appended.seq, appended.duplicate), (Seq::new(log.len() as u64), false));
            assert_eq!(appended.revision.incarnation(), revision.incarnation());
            assert!(!seen.contains(&appended.revision), "the revision {} comes a second time", appended.revision);
            seen.push(appended.revision);
            log.push(Recorded::new(appended.seq, exchange));
        }
        chat.assert_log(&log).await;
        for load in [Load::new(), Load::new().or_added()] {
            assert_eq!(chat.window(load.known(known[0].clone())).await.exchanges, log);
        }
    }
}

/// The media that remain are counted, and those that follow.
pub async fn media_of_a_truncated_log_are_counted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_all([2_000, 3_000, 4_000].map(photo_of)).await;
    chat.truncate(chat.revision().await, 2).await.unwrap();
    log.truncate(2);
    log.push(chat.add(photo_of(5_000)).await);
    assert_media_are_counted(&chat, &log).await;
}

/// A stale revision, one that never existed, one of another incarnation, and one of an absent conversation are refused,
/// and nothing is removed. So is a truncation that is repeated because its answer was lost.
pub async fn only_the_seen_revision_is_truncated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let foreign = Revision::new(Incarnation::random(), 3);
    assert_gone(chat.truncate(foreign, 0).await);
    chat.assert_absent().await;
    chat.add_turns(2).await;
    let ended = chat.revision().await;
    chat.delete().await;
    assert_gone(chat.truncate(ended, 1).await);
    chat.assert_absent().await;

    chat.add_turns(2).await;
    let stale = chat.revision().await;
    chat.add_turns(1).await;
    let before = chat.now().await;
    let never = Revision::new(stale.incarnation(), u64::from(u32::MAX));
    // The revision is checked first, whatever the position is.
    for from in [0, 1, 3, 9] {
        assert_conflict(chat.truncate(stale, from).await, before.revision);
        assert_conflict(chat.truncate(never, from).await, before.revision);
        assert_gone(chat.truncate(foreign, from).await);
    }
    assert_eq!(chat.now().await, before);

    chat.truncate(before.revision, 2).await.unwrap();
    let after = chat.now().await;
    for from in [2, 1, 0, 9] {
        assert_gone(chat.truncate(before.revision, from).await);
    }
    assert_eq!(chat.now().await, after);
    assert_eq!(chat.log().await.len(), 2);
}

/// Position 0 removes the conversation, like a deletion: a new one starts from the beginning.
pub async fn position_0_removes_the_conversation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let small = profile("small");
    chat.cut(NONE, summary_to(1, "secret")).await;
    chat.compact_as(&small, NONE, summary_to(2, "secret")).await.unwrap();
    let ended = chat.revision().await;
    assert_eq!(chat.truncate(ended, 0).await.unwrap(), Truncated::new(None, 3));
    for chat in [&chat, &chat.reopened(fixture).await] {
        chat.assert_absent().await;
    }

    assert_gone(chat.append(Expect::AnyIn(ended.incarnation()), turn_of("late")).await);
    let again = chat.append(Expect::Absent, (*log[2].exchange).clone()).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (Seq::FIRST, false));
    assert_ne!(again.revision.incarnation(), ended.incarnation());
    assert_eq!((chat.compaction().await, chat.compaction_of(&small).await), (None, None));
}

/// If there is no exchange at the position, nothing is removed and nothing changes.
pub async fn a_position_beyond_the_end_removes_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    chat.cut(NONE, summary_to(1, "kept")).await;
    let before = chat.now().await;
    // The same holds for the largest positions, even if a narrower integer would cut them off.
    for from in [3, 4, 1 << 31, 1 << 32, (1 << 32) + 1, u64::MAX] {
        let truncated = chat.truncate(before.revision, from).await.unwrap();
        assert_eq!(truncated, Truncated::new(Some(before.revision), 0));
    }
    chat.assert_unchanged(&before).await;
    assert_eq!(chat.log().await, log);
}

/// Removed exchange ids may be used again. The remaining ones are recognized.
pub async fn removed_ids_are_free_again(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(4).await;
    chat.shorten_to(2).await;
    for recorded in &log[..2] {
        chat.assert_recorded(recorded).await;
        chat.assert_repeat(Expect::Absent, recorded).await;
    }
    // Appended in reverse order, so that they get other positions.
    for recorded in log.split_off(2).iter().rev() {
        chat.window(Load::new().exchange(recorded.exchange.id.clone())).await;
        log.push(chat.add((*recorded.exchange).clone()).await);
    }
    assert_eq!(chat.log().await, log);
}

/// A position within a turn leaves the turn open: it can be continued again, but not at a removed exchange.
pub async fn a_truncation_within_a_turn_leaves_it_open(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_call(1).await;
    chat.add(turn_of("next")).await;
    let revision = chat.shorten_to(1).await.unwrap();
    log.truncate(1);
    chat.assert_log(&log).await;
    assert_unknown(chat.append(Expect::Exactly(revision), result_for(Seq::new(1))).await, 1, 1);
    log.push(chat.add(result_for(Seq::FIRST)).await);
    assert_eq!(log[1].seq, Seq::new(1));
    chat.assert_log(&log).await;
}

/// Only one conversation is truncated, even if others have the same exchange ids and profiles.
pub async fn other_conversations_stay(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let others = [chat.other(), chat.other()];
    let exchanges = [turn_of("a"), turn_of("b"), turn_of("c")];
    for chat in [&others[0], &chat, &others[1]] {
        chat.add_all(exchanges.clone()).await;
        chat.cut(NONE, summary_to(2, "kept")).await;
    }
    let mut before = Vec::new();
    for other in &others {
        before.push((other.now().await, other.log().await));
    }
    for len in [1, 0] {
        chat.shorten_to(len).await;
        for (other, before) in others.iter().zip(&before) {
            assert_eq!((other.now().await, other.log().await), *before);
            other.assert_repeat(Expect::Absent, &before.1[2]).await;
        }
    }
}

/// An append begun before a truncation is refused after it: it is not stored at the end of the truncated log.
pub async fn an_append_in_flight_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(3).await;
    let old = chat.revision().await;
    chat.shorten_to(2).await;
    // Also when the log has its former length again.
    for len in [2, 3] {
        for expect in [Expect::AnyIn(old.incarnation()), Expect::Exactly(old)] {
            for exchange in [turn_of("late"), (*log[2].exchange).clone(), result_for(Seq::new(2))] {
                assert_gone(chat.append(expect, exchange).await);
            }
        }
        assert_eq!(chat.log().await.len(), len);
        chat.add(turn_of("instead")).await;
    }
    assert_eq!(chat.log().await[..2], log[..2]);
}

/// Of several truncations that saw the same revision, exactly one succeeds. The others are refused and remove nothing.
pub async fn one_truncation_wins(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(6).await;
        let revision = chat.revision().await;
        let handles = chat.handles(fixture, 3).await;
        let racing = handles.iter().cycle().zip(1..6).map(|(chat, keep)| chat.truncate(revision, keep));
        let mut won = Vec::new();
        for (keep, result) in (1..).zip(join_all(racing).await) {
            match result {
                Ok(truncated) => won.push((keep, truncated)),
                refused => assert_gone(refused),
            }
        }
        assert_eq!(won.len(), 1, "{won:?}");
        let (keep, truncated) = won[0];
        assert_eq!(truncated, Truncated::new(Some(chat.revision().await), 6 - keep));
        assert_eq!(chat.log().await, log[..keep as usize]);
    }
}

/// A race of a truncation and an append has two possible results: the append is stored and nothing was removed, or the
/// log was truncated and the append is refused with `Gone`.
pub async fn a_racing_append_lands_before_or_not_at_all(fixture: &dyn Fixture) {
    // One of the two comes a little later each time.
    for wait in 0..8_usize {
        let chat = Chat::new(fixture).await;
        let other = chat.reopened(fixture).await;
        let mut log = chat.add_turns(3).await;
        let revision = chat.revision().await;
        let late = turn_of("late");
        let truncating = async {
            pause(wait.saturating_sub(4)).await;
            chat.truncate(revision, 1).await
        };
        let appending = async {
            pause(4_usize.saturating_sub(wait)).await;
            other.append(Expect::AnyIn(revision.incarnation()), late.clone()).await
        };
        match join(truncating, appending).await {
            (Ok(truncated), appended) => {
                assert_gone(appended);
                assert_eq!(truncated.removed, 2);
                log.truncate(1);
            }
            (refused, appended) => {
                let appended = appended.unwrap();
                assert_conflict(refused, appended.revision);
                log.push(Recorded::new(appended.seq, late));
            }
        }
        assert_eq!(chat.log().await, log);
    }
}

/// Callers that repeatedly read, truncate and append leave a log without gaps, and readers see states that existed.
pub async fn edits_and_appends_leave_no_gap(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    let first = chat.add_turns(2).await;
    let truncating = async {
        for _ in 0..6 {
            let at = chat.revision().await;
            pause(1).await;
            let truncated = chat.truncate(at, 2).await;
            assert!(matches!(truncated, Ok(_) | Err(StoreError::Conflict { .. })), "{truncated:?}");
        }
    };
    let appending = join_all(["a", "b", "c"].map(async |text| {
        for _ in 0..4 {
            let incarnation = other.incarnation().await;
            pause(1).await;
            landed(other.append(Expect::AnyIn(incarnation), turn_of(text)).await);
        }
    }));
    let reading = async {
        for _ in 0..12 {
            let window = other.now().await;
            assert!(window.exchanges.starts_with(&first), "{window:?}");
            let positions = window.exchanges.iter().map(|recorded| recorded.seq.get());
            assert!(positions.eq(0..window.exchanges.len() as u64), "a log with a gap: {window:?}");
            pause(1).await;
        }
    };
    join(join(truncating, appending), reading).await;

    // Reading checks that there is no gap.
    let log = chat.log().await;
    assert!(log.starts_with(&first), "{log:?}");
    chat.assert_log(&log).await;
}

/// A truncation whose future is dropped is done or not done.
pub async fn a_dropped_truncation_is_done_or_not(fixture: &dyn Fixture) {
    for polls in 0..4 {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(3).await;
        let revision = chat.revision().await;
        abandon(chat.truncate(revision, 1), polls).await;
        match chat.truncate(revision, 1).await {
            Ok(truncated) => assert_eq!(truncated.removed, 2),
            gone => assert_gone(gone),
        }
        assert_eq!(chat.log().await, log[..1]);
    }
}

/// In a durable store, a truncation survives a reopening: the log, its revision and its compactions are the same.
pub async fn a_truncation_persists(fixture: &dyn Fixture) {
    let chat = Chat::durable(fixture).await;
    let epoch = chat.epoch().await;
    let small = profile("small");
    let log = chat.add_turns(5).await;
    let old = chat.revision().await;
    chat.cut(NONE, summary_to(1, "kept")).await;
    chat.compact_as(&small, NONE, summary_to(4, "removed")).await.unwrap();
    chat.shorten_to(3).await;
    let before = chat.now().await;

    let chat = chat.after_restart(fixture).await;
    assert_eq!(chat.now().await, before);
    assert_eq!(chat.compaction_of(&small).await, None);
    assert_eq!(chat.log().await, log[..3]);
    assert_gone(chat.truncate(old, 1).await);
    assert_gone(chat.append(Expect::AnyIn(old.incarnation()), turn_of("late")).await);
    let again = chat.append(Expect::Exactly(before.revision), (*log[4].exchange).clone()).await.unwrap();
    assert_eq!(again.seq, Seq::new(3));

    // A truncation to nothing is remembered, too.
    chat.shorten_to(0).await;
    let chat = chat.after_restart(fixture).await;
    assert_refused(&chat, epoch).await;
    chat.assert_absent().await;
}

/// First turns whose load came before a truncation to nothing are refused, wherever the log began, through any handle,
/// also if the conversation was created again. A load after the truncation returns a newer epoch.
pub async fn a_truncation_to_nothing_refuses_first_turns(fixture: &dyn Fixture) {
    for (first, from) in [(0, 0), (9, 9), (9, 3), (9, 0)] {
        let chat = Chat::new(fixture).await;
        let other = chat.reopened(fixture).await;
        let epoch = other.epoch().await;
        let append = Append::new(Expect::Absent, turn_of("first")).beginning_at(Seq::new(first));
        chat.submit(append).await.unwrap();
        chat.add_turns(1).await;
        assert_eq!(chat.shorten_to(from).await, None);
        for chat in [&chat, &other] {
            assert_refused(chat, epoch).await;
            chat.assert_absent().await;
        }

        let log = chat.add_turns(1).await;
        assert_refused(&chat, epoch).await;
        assert_eq!(chat.log().await, log);
        chat.shorten_to(0).await;
        assert_later(&chat, epoch).await;
    }
}

/// A truncation that leaves an exchange, that removes nothing, or that is refused, is no deletion.
pub async fn a_truncation_to_something_refuses_no_first_turn(fixture: &dyn Fixture) {
    for from in [1, 2, 5] {
        must_land(async || {
            let chat = Chat::new(fixture).await;
            let epoch = chat.epoch().await;
            chat.add_turns(2).await;
            assert!(chat.shorten_to(from).await.is_some());
            landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await)
        })
        .await;
    }
    must_land(async || {
        let chat = Chat::new(fixture).await;
        let epoch = chat.epoch().await;
        assert_gone(chat.truncate(Revision::new(Incarnation::random(), 1), 0).await);
        chat.add_turns(1).await;
        let stale = chat.revision().await;
        chat.add_turns(1).await;
        assert_conflict(chat.truncate(stale, 0).await, chat.revision().await);
        assert_gone(chat.truncate(Revision::new(Incarnation::random(), 2), 0).await);
        let appended = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await)?;
        assert_eq!(appended.seq, Seq::new(2));
        Some(())
    })
    .await;
}

/// The first turns of other conversations are stored.
pub async fn first_turns_of_others_are_stored(fixture: &dyn Fixture) {
    let store = Chat::new(fixture).await;
    must_land(async || {
        let neighbors = neighbors(&store).await;
        neighbors[0].0.add_turns(1).await;
        neighbors[0].0.shorten_to(0).await;
        others_land(&neighbors).await
    })
    .await;
}

/// Whatever first turns are in flight: after the truncation, there is no conversation.
pub async fn a_truncation_to_nothing_during_first_turns_is_final(fixture: &dyn Fixture) {
    for wait in 0..6 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 3).await;
        let epoch = chat.epoch().await;
        chat.add_turns(1).await;
        let revision = chat.revision().await;
        let creating = join_all(handles.iter().enumerate().map(|(n, chat)| async move {
            pause(3 * n).await;
            // The conversation exists, or it existed: no first turn is stored.
            let refused = chat.append_since(epoch, Expect::Absent, turn_of("first")).await;
            assert!(refused.is_err(), "{refused:?}");
        }));
        let truncating = async {
            pause(wait).await;
            chat.truncate(revision, 0).await.unwrap();
        };
        join(creating, truncating).await;
        chat.assert_absent().await;
    }
}

// The effect of a truncation on compactions.

/// A compaction that is carried over stands in place of the stored one, under the next version.
pub async fn a_compaction_is_carried_over(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let before = chat.cut(NONE, summary_to(3, "of the first three")).await;
    let keep = compact(before.version, summary_to(2, "of the first two"));
    chat.shorten_with(4, keep.clone()).await;
    for chat in [&chat, &chat.reopened(fixture).await] {
        let window = chat.now().await;
        assert_eq!(window.exchanges, log[2..4]);
        assert_eq!(window.compaction, Some(keep.stored_as(before.version.next())));
    }
    // It can be replaced like any other.
    chat.add_turns(2).await;
    chat.cut(before.version.next(), window_from(5)).await;
}

/// A compaction that is carried over may lose its derived text.
pub async fn derived_text_is_carried_over_or_not(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let before = chat.cut(NONE, summary_to(1, "of the first")).await;
    let keep = compact(before.version, window_from(0));
    chat.shorten_with(3, keep.clone()).await;
    assert_eq!(chat.compaction().await, Some(keep.stored_as(before.version.next())));
}

/// Without a compaction to carry over, the stored one is removed: the window is the whole log again.
pub async fn a_compaction_of_what_was_removed_is_removed(fixture: &dyn Fixture) {
    for keep in [1, 2, 3, 4] {
        let chat = Chat::new(fixture).await;
        let log = chat.add_turns(5).await;
        chat.cut(NONE, summary_to(3, "describes removed exchanges")).await;
        chat.shorten_to(keep).await;
        let window = chat.now().await;
        assert_eq!((window.compaction, window.exchanges.as_slice()), (None, &log[..keep as usize]));
        // Nor does it return when the log grows.
        chat.add_turns(4).await;
        assert_eq!(chat.compaction().await, None);
        chat.cut(NONE, summary_to(1, "of what is there")).await;
    }
}

/// If another version is stored than the caller has seen, that one is removed, and the caller's is not stored.
pub async fn a_stale_compaction_is_not_carried_over(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let seen = chat.cut(NONE, summary_to(1, "first")).await;
    chat.cut(seen.version, summary_to(3, "stored since")).await;
    chat.shorten_with(2, compact(seen.version, summary_to(1, "first"))).await;
    let window = chat.now().await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (None, &log[..2]));
}

/// Only one profile's compaction is carried over. Those of the others are removed.
pub async fn other_profiles_are_removed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(5).await;
    let small = profile("small");
    let large = profile("large");
    for (profile, start) in [(&small, 2), (&large, 1), (&Profile::default(), 1)] {
        stored(chat.compact_as(profile, NONE, summary_to(start, "s")).await.ok());
    }
    let keep = with!(compact(NONE.next(), summary_to(1, "s")), profile: large.clone());
    chat.shorten_with(3, keep.clone()).await;
    assert_eq!(chat.compaction_of(&small).await, None);
    assert_eq!(chat.compaction().await, None);
    assert_eq!(chat.compaction_of(&large).await, Some(keep.stored_as(NONE.next().next())));
}

/// A truncation that is refused or removes nothing changes no compaction.
pub async fn a_truncation_without_effect_changes_no_compaction(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let stale = chat.revision().await;
    chat.add_turns(1).await;
    let before = chat.cut(NONE, summary_to(1, "kept")).await;
    let keep = Some(compact(before.version, window_from(0)));
    let refused = chat.store.truncating().truncate(&chat.id, stale, Seq::new(2), keep.clone()).await;
    assert_conflict(refused, chat.revision().await);
    let revision = chat.revision().await;
    let nothing = chat.store.truncating().truncate(&chat.id, revision, Seq::new(4), keep).await.unwrap();
    assert_eq!(nothing, Truncated::new(Some(revision), 0));
    assert_eq!(chat.compaction().await, Some(before));
}

/// A truncation to nothing carries nothing over.
pub async fn nothing_is_carried_over_without_a_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let before = chat.cut(NONE, summary_to(1, "secret")).await;
    chat.shorten_with(0, compact(before.version, summary_to(1, "secret"))).await;
    chat.assert_absent().await;
    chat.add_turns(1).await;
    assert_eq!(chat.compaction().await, None);
}

/// A compaction made from the log before the truncation is refused, even if the log has grown again.
pub async fn a_compaction_in_flight_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let kept = chat.cut(NONE, summary_to(1, "first")).await;
    let incarnation = chat.incarnation().await;
    let in_flight = summary_to(3, "describes removed exchanges");
    chat.shorten_with(2, compact(kept.version, summary_to(1, "first"))).await;
    let before = chat.compaction().await;
    assert!(before.is_some());
    for _ in 0..2 {
        for replaces in [kept.version, kept.version.next(), NONE] {
            assert_gone(chat.compact_in(incarnation, compact(replaces, in_flight.clone())).await);
        }
        assert_eq!(chat.compaction().await, before);
        chat.add_turns(3).await;
    }
    // An append without a condition is stored, but its compaction replaces a version that no longer exists.
    let append = Append::new(Expect::AnyOrCreate, turn_of("x")).compact(compact(kept.version, in_flight));
    let appended = chat.submit(append).await.unwrap();
    assert_eq!(appended.compaction, Some(CompactOutcome::Kept(before)));
}
