//! The effect of a truncation on compactions.

use super::support::*;

/// A compaction whose window starts before the position stays, with its summary, under another version.
pub async fn a_compaction_of_what_stays_is_kept(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(6).await;
    let mut summary = Summary::new("of the first two", Seq::new(2));
    (summary.tokens, summary.model) = (Some(7), Some("m".into()));
    let cut = with!(Cut::window_from(Seq::new(3)), summary: Some(summary));
    let before = chat.cut(NONE, cut.clone()).await;
    chat.shorten_to(4).await;
    let window = chat.now().await;
    assert_eq!(window.exchanges, log[3..4]);
    let after = window.compaction.unwrap();
    assert_eq!(after.cut, cut);
    assert_ne!(after.version, before.version);
    assert_eq!(Some(after), before.truncated_to(4));
}

/// A compaction whose window would start at a removed exchange is removed with its summary: the window is the whole
/// log again.
pub async fn a_compaction_of_what_was_removed_is_removed(fixture: &dyn Fixture) {
    for keep in [1, 2, 3] {
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

/// The other positions are lowered to the end of the log, so that later exchanges are not left out.
pub async fn positions_are_lowered_to_the_end(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let cut = with!(
        Cut::default(),
        window_start: Seq::new(1),
        rounds_start: Seq::new(3),
        cleared_before: Seq::new(6),
        recalled_from: Seq::new(5),
        reasoning_from: Seq::new(5),
        encrypted_from: Seq::new(3),
        summary: Some(Summary::new("first", Seq::new(1))),
    );
    let stored = chat.cut(NONE, cut.clone()).await;
    chat.shorten_to(4).await;
    let end = Seq::new(4);
    let lowered = with!(cut.clone(), cleared_before: end, recalled_from: end, reasoning_from: end);
    assert_eq!(chat.compaction().await, Some(Compaction::new(stored.version.next(), lowered)));
    chat.shorten_to(2).await;
    let end = Seq::new(2);
    let lowered = with!(
        cut,
        rounds_start: end,
        cleared_before: end,
        recalled_from: end,
        reasoning_from: end,
        encrypted_from: end,
    );
    let after = chat.compaction().await.unwrap();
    assert_eq!(after.cut, lowered);
    // The compaction can be replaced like any other.
    chat.add_turns(2).await;
    chat.cut(after.version, with!(lowered, window_start: Seq::new(2))).await;
}

/// The provider's encrypted elements stay left out, as far as they remain, even if the window and the summary of the
/// compaction are removed.
pub async fn encrypted_elements_stay_left_out(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let cut = with!(summary_to(5, "describes removed exchanges"), encrypted_from: Seq::new(5));
    let before = chat.cut(NONE, cut).await;
    chat.shorten_to(3).await;
    let left = with!(Cut::default(), encrypted_from: Seq::new(3));
    let after = chat.compaction().await;
    assert_eq!(after, Some(Compaction::new(before.version.next(), left.clone())));
    // Later exchanges are not left out, and a later cut keeps the position.
    chat.add_turns(2).await;
    assert_eq!(chat.compaction().await, after);
    let back = with!(left, encrypted_from: Seq::new(2));
    let refused = chat.compact(before.version.next(), back).await;
    assert!(matches!(refused, Err(StoreError::Compaction(CompactionError::GoesBack))), "{refused:?}");
}

/// Each profile's compaction is treated separately.
pub async fn profiles_are_treated_separately(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(5).await;
    let (small, large) = (profile("small"), profile("large"));
    for (profile, start) in [(&small, 4), (&large, 1), (&Profile::default(), 3)] {
        stored(chat.compact_as(profile, NONE, summary_to(start, "s")).await.ok());
    }
    chat.shorten_to(3).await;
    assert_eq!(chat.compaction_of(&small).await, None);
    assert_eq!(chat.compaction().await, None);
    assert_eq!(chat.compaction_of(&large).await.map(|stored| stored.cut), Some(summary_to(1, "s")));
}

/// A compaction made from the log before the truncation is refused, even if the log has grown again.
pub async fn a_compaction_in_flight_is_gone(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let kept = chat.cut(NONE, summary_to(1, "first")).await;
    let incarnation = chat.incarnation().await;
    let in_flight = |replaces| compact(replaces, summary_to(3, "describes removed exchanges"));
    chat.shorten_to(2).await;
    let before = chat.compaction().await;
    for _ in 0..2 {
        for replaces in [kept.version, kept.version.next(), NONE] {
            assert_gone(chat.compact_in(incarnation, in_flight(replaces)).await);
        }
        assert_eq!(chat.compaction().await, before);
        chat.add_turns(3).await;
    }
    // An append without a condition is stored, but its compaction replaces a version that no longer exists.
    let append = Append::new(Expect::AnyOrCreate, turn_of("x")).compact(in_flight(kept.version));
    let appended = chat.submit(append).await.unwrap();
    assert_eq!(appended.compaction, Some(CompactOutcome::Kept(before)));
}

/// The cut that a compaction replaced is treated like the compaction's own: its positions are lowered, and it is
/// removed if it describes removed exchanges.
pub async fn the_replaced_cut_is_truncated_too(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let cut = |rounds| with!(Cut::window_from(Seq::new(2)), rounds_start: Seq::new(rounds));
    let replacing = compact(NONE, cut(6)).replacing(Some(cut(5)));
    chat.compact_in(chat.incarnation().await, replacing).await.unwrap();
    chat.shorten_to(4).await;
    let after = chat.compaction().await.unwrap();
    assert_eq!((after.cut, after.replaced.map(|cut| *cut)), (cut(4), Some(cut(4))));
    // Its window starts at a removed exchange.
    let chat = Chat::new(fixture).await;
    chat.add_turns(4).await;
    let late = with!(Cut::window_from(Seq::new(1)), rounds_start: Seq::new(4));
    let replacing = compact(NONE, late.clone()).replacing(Some(Cut::window_from(Seq::new(3))));
    chat.compact_in(chat.incarnation().await, replacing).await.unwrap();
    chat.shorten_to(3).await;
    let after = chat.compaction().await.unwrap();
    assert_eq!((after.cut, after.replaced.map(|cut| *cut)), (with!(late, rounds_start: Seq::new(3)), None));
}

/// If the truncation removes the cut of a compaction, the cut that it replaced is stored again.
pub async fn a_replaced_cut_returns_with_the_log_before_it(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(6).await;
    let (earlier, later) = (summary_to(2, "of two turns"), summary_to(5, "of five turns"));
    let replacing = compact(NONE, later).replacing(Some(earlier.clone()));
    chat.compact_in(chat.incarnation().await, replacing).await.unwrap();
    chat.shorten_to(4).await;
    let after = chat.compaction().await.unwrap();
    assert_eq!((after.cut, after.replaced), (earlier, None));
    chat.shorten_to(1).await;
    assert_eq!(chat.compaction().await, None);
}
