//! The rules for compactions.

use super::*;
use crate::profile::Profile;

fn cut(window: u64, rounds: u64, covers: Option<u64>) -> Cut {
    let positions =
        Positions { window_start: Seq::new(window), rounds_start: Seq::new(rounds), ..Positions::default() };
    let mut cut = Cut { positions, ..Cut::default() };
    if let Some(to) = covers {
        cut.set_summary(Summary::new("s"), Seq::new(to));
    }
    cut
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
    let mut thoughts = stored.clone();
    thoughts.thoughts_from = Seq::new(10);
    assert_eq!(thoughts.check(Some(&stored), 10, |_| true), Ok(()));
    assert_eq!(stored.check(Some(&thoughts), 10, |_| true), Err(CompactionError::GoesBack));
    assert_eq!(thoughts.check(Some(&stored), 9, |_| true), Err(CompactionError::BeyondLog));
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
fn an_erased_compaction_has_another_version_and_no_derived_text() {
    let (version, first) = (CompactionVersion::new(4), Seq::new(7));
    let summarized = stored(&Cuts::new(cut(9, 9, Some(9))), version);
    let erased = summarized.without_derived(first);
    assert_eq!(erased, Compaction::new(version.next(), first, Arc::clone(&summarized.state), None));
    let plain = stored(&Cuts::new(cut(9, 9, None)), version);
    let kept = plain.without_derived(first);
    assert_eq!(kept, Compaction::new(version.next(), Seq::new(9), Arc::clone(&plain.state), None));
    assert_eq!(Cuts::read(&kept).unwrap(), Cuts::new(cut(9, 9, None)));
}

#[test]
fn what_the_provider_cannot_read_stays_left_out_without_the_rest_of_the_cut() {
    let encrypted = |mut cut: Cut, from: u64| {
        cut.encrypted_from = Seq::new(from);
        cut
    };
    let removed = Cuts::new(encrypted(cut(4, 6, Some(4)), 5));
    for len in 1..5 {
        let left = encrypted(Cut::default(), len);
        assert_eq!(left.check(None, len, |_| false), Ok(()), "it obeys the rules of the log");
        assert_eq!(removed.truncated_to(len), Some(Cuts::new(left)));
    }
    assert_eq!(removed.truncated_to(0), None);
    assert_eq!(erased(&removed), Cuts::new(encrypted(Cut::default(), 5)));
    let kept = Cuts::new(encrypted(cut(4, 6, None), 5));
    assert_eq!(erased(&kept), kept);
    let replacing = removed.replacing(Some(cut(1, 2, None)));
    assert_eq!(replacing.truncated_to(3), Some(Cuts::new(encrypted(cut(1, 2, None), 3))));
    assert_eq!(erased(&replacing), Cuts::new(encrypted(Cut::default(), 5)));
}

#[test]
fn the_replaced_cut_follows_the_same_rules() {
    let both = |cut, replaced| Cuts::new(cut).replacing(Some(replaced));
    let summarized = both(cut(3, 6, Some(3)), cut(1, 5, Some(1)));
    assert_eq!(summarized.truncated_to(4).unwrap().replaced.as_deref(), Some(&cut(1, 4, Some(1))));
    assert_eq!(erased(&summarized), Cuts::default());
    let late = both(cut(1, 6, Some(1)), cut(1, 5, Some(5)));
    assert_eq!(late.truncated_to(4).unwrap().replaced, None, "its summary covers removed exchanges");
    let plain = both(cut(3, 6, None), cut(1, 5, None));
    assert_eq!(erased(&plain), plain);
}

#[test]
fn debug_shows_no_bytes() {
    let summarized = Cuts::new(Cut { summary: Some(Summary::new("secret")), ..cut(1, 1, Some(1)) });
    let compact = summarized.compact(Profile::default(), CompactionVersion::NONE).unwrap();
    let bytes = format!("{:?}", compact.derived);
    for shown in [format!("{compact:?}"), format!("{:?}", compact.stored_as(CompactionVersion::NONE))] {
        assert!(!shown.contains(&bytes) && shown.contains("derived_bytes: Some("), "{shown}");
    }
}

/// Returns the compaction that has these cuts.
fn stored(cuts: &Cuts, version: CompactionVersion) -> Compaction {
    cuts.compact(Profile::default(), CompactionVersion::NONE).unwrap().stored_as(version)
}

/// Returns what an erasing prune leaves of these cuts.
fn erased(cuts: &Cuts) -> Cuts {
    Cuts::read(&stored(cuts, CompactionVersion::new(1)).without_derived(Seq::FIRST)).unwrap()
}

#[test]
fn debug_of_a_summary_shows_no_text() {
    assert!(!format!("{:?}", Cut { summary: Some(Summary::new("secret")), ..Cut::default() }).contains("secret"));
}
