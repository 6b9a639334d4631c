//! Compactions stored by themselves, and the rules for all compactions.

use super::support::*;

/// Asserts that a cut is refused for this reason, and that the stored compaction is unchanged.
async fn assert_refused(chat: &Chat, replaces: CompactionVersion, cut: Cut, reason: CompactionError) {
    let before = chat.now().await;
    let refused = chat.compact(replaces, cut.clone()).await;
    let right = matches!(refused, Err(StoreError::Compaction(given)) if given == reason);
    assert!(right, "{refused:?}, for {reason:?} of {cut:?}");
    assert_eq!(chat.now().await, before);
}

/// A compaction is returned with the version it was stored under, and each stored one has another version.
pub async fn a_compaction_is_stored_and_replaced(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let mut versions = vec![NONE];
    for start in 1..4 {
        let replaces = versions[versions.len() - 1];
        let compaction = chat.cut(replaces, summary_to(start, &format!("until {start}"))).await;
        assert!(!versions.contains(&compaction.version), "the version {:?} a second time", compaction.version);
        versions.push(compaction.version);
        let window = chat.now().await;
        assert_eq!(window.compaction, Some(compaction));
        assert_eq!(window.exchanges, log[start as usize..]);
    }
}

/// Every part of a compaction is returned unchanged: its positions, and the summary's text, size and model.
pub async fn a_compaction_comes_back_whole(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let mut summary = Summary::new("\u{0} Grüße \"quoted\" \\ 👩‍👩‍👧 e\u{301}\r\n'; --", Seq::new(2));
    (summary.tokens, summary.model) = (Some(u32::MAX), Some("gpt-\u{0}ä".into()));
    let cut = with!(
        Cut::default(),
        window_start: Seq::new(3),
        rounds_start: Seq::new(4),
        cleared_before: Seq::new(6),
        recalled_from: Seq::new(5),
        reasoning_from: Seq::new(6),
        encrypted_from: Seq::new(4),
        summary: Some(summary),
    );
    let stored = chat.cut(NONE, cut).await;
    assert_eq!(chat.compaction().await, Some(stored));
}

/// A large summary is returned unchanged.
pub async fn a_large_summary_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let stored = chat.cut(NONE, summary_to(1, &"long ".repeat(200_000))).await;
    assert_eq!(chat.compaction().await, Some(stored));
}

/// The cut that a compaction replaced is returned with it, byte for byte, and so it is after an append with a
/// compaction.
pub async fn the_replaced_cut_comes_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let mut replaced = summary_to(1, "before: \u{0} \"ä\" \\");
    replaced.reasoning_from = Seq::new(2);
    let first = chat.cut(NONE, replaced.clone()).await;
    let compact = |version, to, replaced| {
        let cut = with!(summary_to(to, "after"), reasoning_from: Seq::new(2));
        compact(version, cut).replacing(Some(replaced))
    };
    let second = compact(first.version, 2, replaced);
    let outcome = chat.compact_in(chat.incarnation().await, second.clone()).await;
    let version = stored(Some(outcome.unwrap()));
    for chat in [&chat, &chat.reopened(fixture).await] {
        assert_eq!(chat.compaction().await, Some(second.stored_as(version)));
    }
    let third = compact(version, 3, second.cut);
    let append = Append::new(Expect::AnyOrCreate, turn_of("with a compaction")).compact(third.clone());
    let appended = chat.submit(append).await.unwrap();
    let version = stored(appended.compaction);
    assert_eq!(chat.compaction().await, Some(third.stored_as(version)));
}

/// A compaction changes neither the log nor its revision.
pub async fn a_compaction_does_not_change_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let revision = chat.revision().await;
    let first = chat.cut(NONE, Cut::window_from(Seq::new(2))).await;
    chat.cut(first.version, summary_to(3, "before")).await;
    assert_eq!(chat.revision().await, revision);
    assert_eq!(chat.log().await, log);
    let next = chat.append(Expect::Exactly(revision), turn_of("next")).await;
    next.unwrap();
}

/// A compaction made from a version other than the stored one is skipped, and the stored one is returned.
pub async fn a_stale_compaction_is_left_out(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(5).await;
    let some = CompactionVersion::new(7);
    assert_eq!(chat.compact(some, summary_to(1, "x")).await.unwrap(), CompactOutcome::Kept(None));
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    let second = chat.cut(first.version, summary_to(3, "second")).await;
    // Both are skipped, no matter whether the positions would increase or decrease: the caller could not know the
    // stored ones.
    for (replaces, start) in [(NONE, 4), (first.version, 4), (first.version, 2), (NONE, 1)] {
        let outcome = chat.compact(replaces, summary_to(start, "stale")).await.unwrap();
        assert_eq!(outcome, CompactOutcome::Kept(Some(second.clone())), "replaces {replaces:?}, window from {start}");
    }
    assert_eq!(chat.compaction().await, Some(second));
}

/// No position may decrease. The same positions are allowed, also with another text.
pub async fn positions_do_not_go_back(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let cut = |window, rounds, cleared, covers| {
        with!(
            Cut::default(),
            window_start: Seq::new(window),
            rounds_start: Seq::new(rounds),
            cleared_before: Seq::new(cleared),
            recalled_from: Seq::new(1),
            reasoning_from: Seq::new(1),
            encrypted_from: Seq::new(1),
            summary: Some(Summary::new("x", Seq::new(covers))),
        )
    };
    let first = chat.cut(NONE, cut(3, 4, 5, 2)).await;
    let without_recalled = with!(cut(3, 4, 5, 2), recalled_from: Seq::FIRST);
    let without_reasoning = with!(cut(3, 4, 5, 2), reasoning_from: Seq::FIRST);
    let without_encrypted = with!(cut(3, 4, 5, 2), encrypted_from: Seq::FIRST);
    let positions = [cut(2, 4, 5, 2), cut(3, 3, 5, 2), cut(3, 4, 4, 2), cut(3, 4, 5, 1)];
    for back in positions.into_iter().chain([without_recalled, without_reasoning, without_encrypted]) {
        assert_refused(&chat, first.version, back, CompactionError::GoesBack).await;
    }
    let without_summary = with!(cut(4, 5, 6, 0), summary: None);
    assert_refused(&chat, first.version, without_summary, CompactionError::GoesBack).await;
    let mut again = cut(3, 4, 5, 2);
    again.summary = Some(Summary::new("better", Seq::new(2)));
    chat.cut(first.version, again).await;
}

/// A window starts only at an exchange that opens a turn.
pub async fn a_window_starts_at_an_opening(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let call = chat.add(call_of("what is it?")).await;
    chat.add(result_for(call.seq)).await;
    chat.add_turns(1).await;
    let within = Seq::new(1);
    assert_refused(&chat, NONE, Cut::window_from(within), CompactionError::NotAnOpening { seq: within }).await;
    chat.cut(NONE, Cut::window_from(Seq::new(2))).await;
}

/// No position is beyond the log: the window has at least one exchange, and the other positions may be at the end.
pub async fn positions_lie_within_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(3).await;
    let end = Seq::new(3);
    for beyond in [3, 4, u64::MAX].map(Seq::new) {
        assert_refused(&chat, NONE, Cut::window_from(beyond), CompactionError::BeyondLog).await;
        let after = Seq::new(beyond.get().saturating_add(1));
        let rounds = with!(Cut::default(), rounds_start: after);
        assert_refused(&chat, NONE, rounds, CompactionError::BeyondLog).await;
        let cleared = with!(Cut::default(), cleared_before: after);
        assert_refused(&chat, NONE, cleared, CompactionError::BeyondLog).await;
        let encrypted = with!(Cut::default(), encrypted_from: after);
        assert_refused(&chat, NONE, encrypted, CompactionError::BeyondLog).await;
    }
    let last = with!(Cut::window_from(Seq::new(2)), rounds_start: end, cleared_before: end, encrypted_from: end);
    chat.cut(NONE, last).await;
}

/// A summary covers no exchange that is still in the window. It may cover fewer.
pub async fn a_summary_ends_before_the_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let covering = |covers| with!(Cut::window_from(Seq::new(2)), summary: Some(Summary::new("x", Seq::new(covers))));
    assert_refused(&chat, NONE, covering(3), CompactionError::CoversWindow).await;
    chat.cut(NONE, covering(1)).await;
}

/// If another call moved the window first, a finished summary can be merged onto the moved window, because the summary
/// has been paid for.
pub async fn a_finished_summary_is_merged_onto_a_moved_window(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let finished = summary_to(2, "of the first two");
    chat.reopened(fixture).await.cut(NONE, Cut::window_from(Seq::new(4))).await;
    let outcome = chat.compact(NONE, finished.clone()).await.unwrap();
    let CompactOutcome::Kept(Some(moved)) = outcome else { panic!("the moved window is kept: {outcome:?}") };
    let merged = finished.merged_onto(&moved.cut).unwrap();
    let stored = chat.cut(moved.version, merged).await;
    assert_eq!((stored.cut.window_start, stored.cut.covers_to()), (Seq::new(4), Seq::new(2)));
    let window = chat.now().await;
    assert_eq!((window.compaction, window.exchanges.as_slice()), (Some(stored), &log[4..]));
}

/// Of several concurrent compactions that replace the same version, exactly one is stored. The other calls return the
/// stored compaction.
pub async fn one_compaction_wins_a_version(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    chat.add_turns(9).await;
    let mut replaces = NONE;
    for round in 0..3 {
        let cuts = (0..6).map(|n| summary_to(2 * round + n % 2 + 1, &format!("{round}, {n}")));
        let racing = handles
            .iter()
            .cycle()
            .zip(cuts)
            .map(|(chat, cut)| async move { (cut.clone(), chat.compact(replaces, cut).await.unwrap()) });
        let outcomes = join_all(racing).await;
        let stored = chat.compaction().await.unwrap();
        let winners = outcomes.iter().filter(|(_, outcome)| matches!(outcome, CompactOutcome::Stored(_)));
        let winners: Vec<&Cut> = winners.map(|(cut, _)| cut).collect();
        assert_eq!(winners, [&stored.cut]);
        for (cut, outcome) in &outcomes {
            let expected = if *cut == stored.cut {
                CompactOutcome::Stored(stored.version)
            } else {
                CompactOutcome::Kept(Some(stored.clone()))
            };
            assert_eq!(*outcome, expected);
        }
        replaces = stored.version;
    }
}

/// A compaction for an ended incarnation, or for an absent conversation, stores nothing.
pub async fn a_compaction_needs_its_incarnation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let compact = |cut| compact(NONE, cut);
    let dead = Incarnation::random();
    assert_gone(chat.compact_in(dead, compact(Cut::default())).await);
    chat.assert_absent().await;
    chat.add_turns(2).await;
    assert_gone(chat.compact_in(dead, compact(Cut::window_from(Seq::new(1)))).await);
    assert_eq!(chat.compaction().await, None);
}
