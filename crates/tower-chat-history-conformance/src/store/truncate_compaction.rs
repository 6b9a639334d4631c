//! The effect of a truncation on compactions: all are removed, except the one that the caller carries over.

use super::support::*;

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
    let keep = || Some(compact(before.version, window_from(0)));
    let refused = chat.store.truncating().truncate(&chat.id, stale, Seq::new(2), keep()).await;
    assert_conflict(refused, chat.revision().await);
    let revision = chat.revision().await;
    let nothing = chat.store.truncating().truncate(&chat.id, revision, Seq::new(4), keep()).await.unwrap();
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
    let in_flight = |replaces| compact(replaces, summary_to(3, "describes removed exchanges"));
    chat.shorten_with(2, compact(kept.version, summary_to(1, "first"))).await;
    let before = chat.compaction().await;
    assert!(before.is_some());
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
