//! Calibration: correcting token counts by the usage that the provider reports in the same conversation.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
};

use quick_cache::sync::Cache;
use tower_chat_history_core::ConversationId;

#[doc(hidden)]
/// The correction factors: tokens of the provider per counted token, for each conversation, model and counter.
///
/// A conversation's factor depends only on its own reports. Its key is a keyed hash of 128 bits, so that no caller can
/// construct an id that has the entry of another conversation. Entries that were not used recently are evicted.
pub struct Calibration {
    ratios: Cache<CalibrationKey, Ratios>,
    keys: [RandomState; 2],
}

#[doc(hidden)]
/// The conversation, model and counter that a factor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CalibrationKey(u64, u64);

/// The weighted sum of the ratios of a conversation's calls. Newer calls have more weight.
#[derive(Clone, Copy, Debug, Default)]
struct Ratios {
    sum: f64,
    /// The sum of the weights.
    weights: f64,
}

/// The factor by which each further call multiplies the weight of the calls before it. After ten others, a call has a
/// tenth of its weight.
const DECAY: f64 = 0.8;

/// Prompts with fewer counted tokens are ignored. A provider adds a constant number of tokens that are not counted,
/// independent of the prompt's size. In a small prompt they would distort the ratio.
const MIN_PROMPT_TOKENS: u64 = 500;

/// The largest ratio that is used. A larger one means that the reported usage is not that of the counted prompt.
const LARGEST_RATIO: f64 = 1.5;

/// The largest number of entries, of about 50 bytes each.
const MAX_ENTRIES: usize = 1 << 16;

impl Calibration {
    fn of(entries: usize) -> Self {
        Self { ratios: Cache::new(entries), keys: [RandomState::new(), RandomState::new()] }
    }

    /// Returns the key of a conversation's calls of this model, counted by this counter.
    #[must_use]
    pub fn key(&self, conversation: &ConversationId, model: Option<&str>, counter: &str) -> CalibrationKey {
        let [one, other] = self.keys.each_ref().map(|key| key.hash_one((conversation, model, counter)));
        CalibrationKey(one, other)
    }

    /// Returns the ratio for this key, from 1 to 1.5. It is 1 if there is no entry.
    #[must_use]
    pub fn ratio(&self, key: CalibrationKey) -> f64 {
        self.ratios.get(&key).map_or(1.0, |ratios| (ratios.sum / ratios.weights).clamp(1.0, LARGEST_RATIO))
    }

    /// Adds the provider's report about a prompt that had `counted` tokens.
    pub fn learn(&self, key: CalibrationKey, counted: u64, reported: u64) {
        if counted < MIN_PROMPT_TOKENS {
            return;
        }
        // The ratio is bounded before it is added, so that one wrong report has limited influence.
        let ratio = (reported as f64 / counted as f64).clamp(1.0, LARGEST_RATIO);
        // If two calls of a conversation end at the same time, one of the two reports may be lost.
        let Ratios { sum, weights } = self.ratios.get(&key).unwrap_or_default();
        self.ratios.insert(key, Ratios { sum: sum * DECAY + ratio, weights: weights * DECAY + 1.0 });
    }

    /// Removes the entry. Call it when the conversation begins anew.
    pub fn forget(&self, key: CalibrationKey) {
        self.ratios.remove(&key);
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self::of(MAX_ENTRIES)
    }
}

impl fmt::Debug for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calibration").field("entries", &self.ratios.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(calibration: &Calibration, conversation: usize) -> CalibrationKey {
        let id = ConversationId::new([conversation.to_string()]).unwrap();
        calibration.key(&id, Some("m"), "c")
    }

    fn learned(calls: &[(u64, u64)]) -> f64 {
        let calibration = Calibration::default();
        let key = key(&calibration, 0);
        for (counted, reported) in calls {
            calibration.learn(key, *counted, *reported);
        }
        calibration.ratio(key)
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
        calibration.learn(calibration.key(&one, Some("m"), "c"), 1_000, 1_200);
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
            calibration.learn(key(&calibration, conversation), 1_000, 1_200);
        }
        assert!(calibration.ratios.len() <= 100, "{}", calibration.ratios.len());
        let newest = key(&calibration, 10_000);
        calibration.learn(newest, 1_000, 1_200);
        assert!(calibration.ratio(newest) > 1.1, "the newest conversation has an entry");
    }

    proptest! {
        #[test]
        fn the_ratio_is_bounded_whatever_is_reported(
            calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
        ) {
            let ratio = learned(&calls);
            prop_assert!((1.0..=LARGEST_RATIO).contains(&ratio), "{}", ratio);
        }
    }
}
