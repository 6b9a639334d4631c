//! Tests of calibration.

use proptest::prelude::*;

use tower_chat_history_core::Seq;

use super::*;

fn key(calibration: &Calibration, conversation: usize) -> CalibrationKey {
    let id = ConversationId::new([conversation.to_string()]).unwrap();
    calibration.key(&id, Some("m"), "c")
}

impl Calibration {
    fn ratio(&self, key: CalibrationKey) -> f64 {
        self.correction(key, start(0)).ratio
    }
}

fn start(window_start: u64) -> PromptStart {
    let mut positions = Positions::default();
    positions.window_start = Seq::new(window_start);
    PromptStart { positions, request: Digest::default() }
}

fn report(counted: u64, reported: u64) -> UsageReport {
    UsageReport { counted, reported, is_estimate: false, start: Some(start(0)) }
}

fn estimate(counted: u64, reported: u64) -> UsageReport {
    UsageReport { is_estimate: true, ..report(counted, reported) }
}

fn corrected(reports: &[UsageReport]) -> Correction {
    let calibration = Calibration::default();
    let key = key(&calibration, 0);
    reports.iter().for_each(|report| calibration.learn(key, *report));
    calibration.correction(key, start(0))
}

fn learned(calls: &[(u64, u64)]) -> f64 {
    let reports: Vec<_> = calls.iter().map(|(counted, reported)| report(*counted, *reported)).collect();
    corrected(&reports).ratio
}

#[test]
fn the_ratio_approaches_the_reported_one() {
    assert!((learned(&[(1_000, 1_300); 3]) - 1.3).abs() < 0.01);
    let changed = learned(&[[(1_000, 1_300); 20], [(1_000, 1_100); 20]].concat());
    assert!((changed - 1.1).abs() < 0.01, "{changed}");
}

#[test]
fn small_prompts_are_ignored_and_later_ones_outweigh_earlier_ones() {
    assert_eq!(learned(&[(11, 33); 50]).to_bits(), 1.0_f64.to_bits());
    let mixed = learned(&[[(600, 650); 10], [(10_000, 10_050); 10]].concat());
    assert!(mixed < 1.02, "{mixed}");
}

#[test]
fn one_wrong_report_has_little_influence() {
    for wrong in [1_000_000_000_000, u64::MAX] {
        let calls = [vec![(1_000, wrong)], vec![(1_000, 1_000); 10]].concat();
        assert!(learned(&calls) < 1.02, "{}", learned(&calls));
        let calls = [vec![(1_000, 1_000); 10], vec![(1_000, wrong)]].concat();
        assert!(learned(&calls) < 1.12, "{}", learned(&calls));
    }
}

#[test]
fn conversations_models_and_counters_have_separate_entries() {
    let calibration = Calibration::default();
    let [one, other] = ["1", "2"].map(|part| ConversationId::new([part]).unwrap());
    calibration.learn(calibration.key(&one, Some("m"), "c"), report(1_000, 1_200));
    assert!(calibration.ratio(calibration.key(&one, Some("m"), "c")) > 1.1);
    for (id, model, counter) in
        [(&other, Some("m"), "c"), (&one, Some("n"), "c"), (&one, None, "c"), (&one, Some("m"), "d")]
    {
        assert_eq!(calibration.ratio(calibration.key(id, model, counter)).to_bits(), 1.0_f64.to_bits());
    }
    calibration.forget(calibration.key(&one, Some("m"), "c"));
    assert_eq!(calibration.ratio(calibration.key(&one, Some("m"), "c")).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn the_number_of_entries_is_bounded() {
    let calibration = Calibration::of(100);
    for conversation in 0..10_000 {
        calibration.learn(key(&calibration, conversation), report(1_000, 1_200));
    }
    assert!(calibration.entries.len() <= 100, "{}", calibration.entries.len());
    let newest = key(&calibration, 10_000);
    calibration.learn(newest, report(1_000, 1_200));
    assert!(calibration.ratio(newest) > 1.1, "the newest conversation has an entry");
}

#[test]
fn an_estimate_may_be_corrected_further_than_an_exact_count() {
    assert!((corrected(&[estimate(1_000, 5_000); 9]).ratio - 2.0).abs() < 1e-9);
    assert!((corrected(&[report(1_000, 5_000); 9]).ratio - 1.5).abs() < 1e-9);
}

#[test]
fn an_estimate_that_is_too_high_has_spare_tokens_after_two_reports() {
    // The margin is 5% of the report: 1,000 - 800 * 1.05.
    assert_eq!(corrected(&[estimate(1_000, 800)]), Correction::NONE, "one report may be wrong");
    assert_eq!(corrected(&[estimate(1_000, 800); 2]), Correction { ratio: 1.0, overcount: 160 });
    let grown = [estimate(1_000, 800), estimate(2_000, 1_600)];
    assert_eq!(corrected(&grown).overcount, 160, "the smaller number of the two newest reports");
    let changed = [estimate(1_000, 800), estimate(2_000, 1_600), estimate(2_100, 2_050)];
    assert_eq!(corrected(&changed), Correction::NONE, "the new content has more tokens than estimated");
    assert_eq!(corrected(&[report(1_000, 800); 2]), Correction::NONE, "the counter is exact");
    assert_eq!(corrected(&[estimate(1_000, 970); 2]), Correction::NONE, "within the margin");
    assert_eq!(corrected(&[estimate(1_000, 499); 9]), Correction::NONE, "not the usage of the whole prompt");
    let low = [estimate(1_000, 1_300), estimate(1_000, 800), estimate(1_000, 800)];
    assert!(corrected(&low).ratio > 1.0 && corrected(&low).overcount == 0, "a count that was too low is remembered");
}

#[test]
fn spare_tokens_belong_to_the_beginning_of_the_prompt_and_end_with_a_failed_call() {
    let calibration = Calibration::default();
    let key = key(&calibration, 0);
    let learn = || calibration.learn(key, estimate(1_000, 800));
    (0..2).for_each(|_| learn());
    for other in [start(1), PromptStart { request: Digest::of(b"other tools"), ..start(0) }] {
        assert_eq!(calibration.correction(key, other), Correction::NONE, "{other:?}");
    }
    assert_eq!(calibration.correction(key, start(0)).overcount, 160);
    calibration.learn(key, UsageReport { start: None, ..estimate(1_000, 800) });
    assert_eq!(calibration.correction(key, start(0)).overcount, 0, "the next prompt does not begin with this one");
    (0..2).for_each(|_| learn());
    calibration.doubt(key);
    assert_eq!(calibration.correction(key, start(0)), Correction::NONE);
    learn();
    assert_eq!(calibration.correction(key, start(0)).overcount, 0, "two further reports are needed");
}

proptest! {
    #[test]
    fn the_ratio_is_bounded_whatever_is_reported(
        calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
    ) {
        let ratio = learned(&calls);
        prop_assert!((1.0..=LARGEST_RATIO).contains(&ratio), "{}", ratio);
    }

    #[test]
    fn the_correction_of_an_estimate_is_bounded_whatever_is_reported(
        calls in prop::collection::vec(
            (prop_oneof![any::<u64>(), 500..5_000_u64], prop_oneof![any::<u64>(), 0..9_000_u64], any::<bool>()),
            0..50,
        ),
    ) {
        let report = |(counted, reported, starts): (u64, u64, bool)| {
            UsageReport { start: starts.then_some(start(0)), ..estimate(counted, reported) }
        };
        let reports: Vec<_> = calls.into_iter().map(report).collect();
        let Correction { ratio, overcount } = corrected(&reports);
        prop_assert!((1.0..=LARGEST_RATIO_OF_ESTIMATE).contains(&ratio), "{}", ratio);
        prop_assert!(overcount == 0 || ratio <= 1.0, "{} and {}", ratio, overcount);
        let newest = reports.iter().rfind(|report| report.counted >= MIN_PROMPT_TOKENS);
        let undercounted = newest.map_or(0, |report| report.counted.saturating_sub(report.reported));
        prop_assert!(overcount <= undercounted, "{} of {}", overcount, undercounted);
    }

    /// The reports of one conversation never change the correction of another one.
    #[test]
    fn conversations_do_not_affect_each_other(
        calls in prop::collection::vec((0..3_usize, 500..3_000_u64, 0..9_000_u64), 1..60),
    ) {
        let together = Calibration::default();
        let alone: Vec<_> = (0..3).map(|_| Calibration::default()).collect();
        for (conversation, counted, reported) in calls {
            together.learn(key(&together, conversation), estimate(counted, reported));
            let own = &alone[conversation];
            own.learn(key(own, conversation), estimate(counted, reported));
            for (conversation, own) in alone.iter().enumerate() {
                let expected = own.correction(key(own, conversation), start(0));
                prop_assert_eq!(together.correction(key(&together, conversation), start(0)), expected);
            }
        }
    }
}
