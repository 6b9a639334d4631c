//! The rules for compactions.

use super::*;

fn cut(window: u64, rounds: u64, covers: Option<u64>) -> Cut {
    Cut {
        window_start: Seq::new(window),
        rounds_start: Seq::new(rounds),
        cleared_before: Seq::FIRST,
        recalled_from: Seq::FIRST,
        reasoning_from: Seq::FIRST,
        encrypted_from: Seq::FIRST,
        summary: covers.map(|to| Summary::new("s", Seq::new(to))),
    }
}

#[test]
fn positions_never_decrease() {
    let stored = cut(4, 6, Some(2));
    for back in [cut(3, 6, Some(2)), cut(4, 5, Some(2)), cut(4, 6, Some(1)), cut(4, 6, None)] {
        assert_eq!(back.check(Some(&stored), 10, |_| true), Err(CompactionError::GoesBack), "{back:?}");
    }
    assert_eq!(stored.check(Some(&stored), 10, |_| true), Ok(()));
    let mut recalled = stored.clone();
    recalled.recalled_from = Seq::new(10);
    assert_eq!(recalled.check(Some(&stored), 10, |_| true), Ok(()));
    assert_eq!(stored.check(Some(&recalled), 10, |_| true), Err(CompactionError::GoesBack));
    assert_eq!(recalled.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
    let mut reasoning = stored.clone();
    reasoning.reasoning_from = Seq::new(10);
    assert_eq!(reasoning.check(Some(&stored), 10, |_| true), Ok(()));
    assert_eq!(stored.check(Some(&reasoning), 10, |_| true), Err(CompactionError::GoesBack));
    assert_eq!(reasoning.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
    let mut encrypted = stored.clone();
    encrypted.encrypted_from = Seq::new(10);
    assert_eq!(encrypted.check(Some(&stored), 10, |_| true), Ok(()));
    assert_eq!(stored.check(Some(&encrypted), 10, |_| true), Err(CompactionError::GoesBack));
    assert_eq!(encrypted.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
}

#[test]
fn windows_start_at_an_opening_within_the_log() {
    assert_eq!(
        cut(3, 3, None).check(None, 4, |seq| seq != Seq::new(3)),
        Err(CompactionError::NotAnOpening { seq: Seq::new(3) })
    );
    assert_eq!(cut(4, 4, None).check(None, 4, |_| true), Err(CompactionError::BeyondLog));
    assert_eq!(cut(1, 5, None).check(None, 4, |_| true), Err(CompactionError::BeyondLog));
    assert_eq!(cut(1, 4, Some(2)).check(None, 4, |_| true), Err(CompactionError::CoversWindow));
}

#[test]
fn a_finished_summary_replaces_one_that_covers_less() {
    let finished = cut(4, 4, Some(4));
    let merged = finished.merged_onto(&cut(6, 7, None)).unwrap();
    assert_eq!(merged, cut(6, 7, Some(4)));
    assert_eq!(finished.merged_onto(&cut(6, 7, Some(3))), Some(cut(6, 7, Some(4))));
    assert_eq!(finished.merged_onto(&cut(6, 7, Some(4))), None);
    assert_eq!(finished.merged_onto(&cut(6, 7, Some(5))), None);
    let (mut repaired, mut expected) = (cut(6, 7, None), cut(6, 7, Some(4)));
    (repaired.encrypted_from, expected.encrypted_from) = (Seq::new(5), Seq::new(5));
    assert_eq!(finished.merged_onto(&repaired), Some(expected));
}

#[test]
fn a_truncated_cut_ends_with_the_log() {
    let mut whole = cut(4, 8, Some(2));
    (whole.cleared_before, whole.recalled_from, whole.reasoning_from) = (Seq::new(6), Seq::new(7), Seq::new(5));
    whole.encrypted_from = Seq::new(7);
    assert_eq!(whole.truncated_to(8), Some(whole.clone()));
    for len in [7, 6, 5] {
        let mut lowered = cut(4, len, Some(2));
        lowered.cleared_before = Seq::new(len.min(6));
        lowered.recalled_from = Seq::new(len.min(7));
        lowered.reasoning_from = Seq::new(5);
        lowered.encrypted_from = Seq::new(len.min(7));
        assert_eq!(whole.truncated_to(len), Some(lowered.clone()));
        assert_eq!(lowered.check(None, len, |seq| seq == Seq::new(4)), Ok(()), "it obeys the rules of the log");
    }
    for len in 0..5 {
        assert_eq!(whole.truncated_to(len), None, "the window's start was removed");
    }
    assert_eq!(Cut::default().truncated_to(1), Some(Cut::default()));
    assert_eq!(Cut::default().truncated_to(0), None);
}

#[test]
fn a_summary_of_removed_exchanges_is_removed() {
    // No store has such a cut, but a stored summary is not trusted either.
    assert_eq!(cut(1, 1, Some(4)).truncated_to(3), None);
    assert_eq!(cut(3, 3, Some(3)).truncated_to(3), None);
    assert!(cut(3, 3, Some(3)).truncated_to(4).is_some());
}

#[test]
fn a_remaining_compaction_has_another_version() {
    let version = CompactionVersion::new(4);
    let stays = Compaction::new(version, cut(1, 3, Some(1))).truncated_to(2);
    assert_eq!(stays, Some(Compaction::new(version.next(), cut(1, 2, Some(1)))));
    let stays = Compaction::new(version, cut(1, 3, None)).without_derived();
    assert_eq!(stays, Some(Compaction::new(version.next(), cut(1, 3, None))));
    assert_eq!(Compaction::new(version, cut(1, 3, Some(1))).without_derived(), None);
}

#[test]
fn what_the_provider_cannot_read_stays_left_out_without_the_rest_of_the_cut() {
    let version = CompactionVersion::new(4);
    let encrypted = |mut cut: Cut, from: u64| {
        cut.encrypted_from = Seq::new(from);
        cut
    };
    let removed = Compaction::new(version, encrypted(cut(4, 6, Some(4)), 5));
    for len in 1..5 {
        let left = encrypted(Cut::default(), len);
        assert_eq!(left.check(None, len, |_| false), Ok(()), "it obeys the rules of the log");
        assert_eq!(removed.truncated_to(len), Some(Compaction::new(version.next(), left)));
    }
    assert_eq!(removed.truncated_to(0), None);
    let left = Compaction::new(version.next(), encrypted(Cut::default(), 5));
    assert_eq!(removed.without_derived(), Some(left));
    let kept = Compaction::new(version, encrypted(cut(4, 6, None), 5));
    assert_eq!(kept.without_derived().unwrap().cut, kept.cut);
    let replacing = removed.replacing(Some(cut(1, 2, None)));
    assert_eq!(replacing.truncated_to(3).unwrap().cut, encrypted(cut(1, 2, None), 3));
}

#[test]
fn the_replaced_cut_follows_the_same_rules() {
    let compaction = |cut, replaced| Compaction::new(CompactionVersion::new(4), cut).replacing(Some(replaced));
    let both = compaction(cut(3, 6, Some(3)), cut(1, 5, Some(1)));
    assert_eq!(both.truncated_to(4).unwrap().replaced.as_deref(), Some(&cut(1, 4, Some(1))));
    let late = compaction(cut(1, 6, Some(1)), cut(1, 5, Some(5)));
    assert_eq!(late.truncated_to(4).unwrap().replaced, None, "its summary covers removed exchanges");
    let both = compaction(cut(3, 6, None), cut(1, 5, None));
    assert_eq!(both.without_derived().unwrap().replaced.as_deref(), Some(&cut(1, 5, None)));
    let summarized = compaction(cut(3, 6, None), cut(1, 5, Some(1)));
    assert_eq!(summarized.without_derived().unwrap().replaced, None);
}

#[test]
fn debug_of_a_summary_shows_no_text() {
    assert!(
        !format!("{:?}", Cut { summary: Some(Summary::new("secret", Seq::FIRST)), ..Cut::default() })
            .contains("secret")
    );
}
