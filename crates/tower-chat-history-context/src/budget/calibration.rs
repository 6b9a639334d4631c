//! Counts, corrected by what the provider reports in the same conversation.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
};

use quick_cache::sync::Cache;
use tower_chat_history_core::ConversationId;

#[doc(hidden)]
/// How many tokens of the provider one counted token is, for each conversation, model and counter.
///
/// A conversation learns from its own reports only. It is known by a keyed hash of 128 bits, so nobody can aim at the
/// entry of another one. The entries that were unused for longest are forgotten.
pub struct Calibration {
    ratios: Cache<Key, Ratios>,
    keys: [RandomState; 2],
}

#[doc(hidden)]
/// Which conversation, model and counter a factor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64, u64);

/// The ratios of a conversation's calls, of which the newer ones count more.
#[derive(Clone, Copy, Debug, Default)]
struct Ratios {
    sum: f64,
    /// The sum of the weights.
    calls: f64,
}

/// The weight that each further call leaves to those before it: a call counts for a tenth after ten others.
const MEMORY: f64 = 0.8;

/// Prompts of fewer counted tokens teach nothing. What frames a prompt, or stands in it unseen, is a number of tokens
/// and no share of them.
const SMALLEST: u64 = 500;

/// The largest ratio that is believed. A count that is wrong by more is one of something else.
const LARGEST_RATIO: f64 = 1.5;

/// How many entries there are at most, of about 50 bytes each.
const ENTRIES: usize = 1 << 16;

impl Calibration {
    fn of(entries: usize) -> Self {
        Self { ratios: Cache::new(entries), keys: [RandomState::new(), RandomState::new()] }
    }

    /// The key of a conversation's calls of that model, counted by that counter.
    #[must_use]
    pub fn key(&self, conversation: &ConversationId, model: Option<&str>, counter: &str) -> Key {
        let [one, other] = self.keys.each_ref().map(|key| key.hash_one((conversation, model, counter)));
        Key(one, other)
    }

    /// The ratio for that key: from 1 to 1.5, and 1 where nothing is known.
    #[must_use]
    pub fn ratio(&self, key: Key) -> f64 {
        self.ratios.get(&key).map_or(1.0, |ratios| (ratios.sum / ratios.calls).clamp(1.0, LARGEST_RATIO))
    }

    /// Takes in what the provider reports of a prompt that had `counted` tokens.
    #[allow(clippy::cast_precision_loss)] // A ratio needs no more digits.
    pub fn learn(&self, key: Key, counted: u64, reported: u64) {
        if counted < SMALLEST {
            return;
        }
        // Bounded before it is summed: one report is no more than one report, whatever number stands in it.
        let ratio = (reported as f64 / counted as f64).clamp(1.0, LARGEST_RATIO);
        // Two calls of one conversation at the same time may lose one of two reports.
        let Ratios { sum, calls } = self.ratios.get(&key).unwrap_or_default();
        self.ratios.insert(key, Ratios { sum: sum * MEMORY + ratio, calls: calls * MEMORY + 1.0 });
    }

    /// Forgets what was learned: the conversation begins anew.
    pub fn forget(&self, key: Key) {
        self.ratios.remove(&key);
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self::of(ENTRIES)
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

    fn key(calibration: &Calibration, conversation: usize) -> Key {
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
    fn it_comes_near_to_what_is_reported() {
        assert!((learned(&[(1_000, 1_300); 3]) - 1.3).abs() < 0.01);
        let changed = learned(&[[(1_000, 1_300); 20], [(1_000, 1_100); 20]].concat());
        assert!((changed - 1.1).abs() < 0.01, "{changed}");
    }

    #[test]
    fn small_prompts_say_nothing_and_are_outgrown() {
        assert_eq!(learned(&[(11, 33); 50]).to_bits(), 1.0_f64.to_bits());
        let mixed = learned(&[[(600, 650); 10], [(10_000, 10_050); 10]].concat());
        assert!(mixed < 1.02, "{mixed}");
    }

    #[test]
    fn one_wrong_report_is_soon_forgotten() {
        for wrong in [1_000_000_000_000, u64::MAX] {
            let calls = [vec![(1_000, wrong)], vec![(1_000, 1_000); 10]].concat();
            assert!(learned(&calls) < 1.02, "{}", learned(&calls));
            let calls = [vec![(1_000, 1_000); 10], vec![(1_000, wrong)]].concat();
            assert!(learned(&calls) < 1.12, "{}", learned(&calls));
        }
    }

    #[test]
    fn conversations_models_and_counters_are_told_apart() {
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
    fn there_are_never_more_entries_than_there_may_be() {
        let calibration = Calibration::of(100);
        for conversation in 0..10_000 {
            calibration.learn(key(&calibration, conversation), 1_000, 1_200);
        }
        assert!(calibration.ratios.len() <= 100, "{}", calibration.ratios.len());
        let newest = key(&calibration, 10_000);
        calibration.learn(newest, 1_000, 1_200);
        assert!(calibration.ratio(newest) > 1.1, "the newest has a place");
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bounds_whatever_is_reported(
            calls in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
        ) {
            let ratio = learned(&calls);
            prop_assert!((1.0..=LARGEST_RATIO).contains(&ratio), "{}", ratio);
        }
    }
}
