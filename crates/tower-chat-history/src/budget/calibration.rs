//! Counts, corrected by what providers report.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How many tokens of the provider one counted token is, for each model and counter: over this process's calls, the newer and
/// the larger ones counting more.
#[derive(Debug, Default)]
pub(crate) struct Calibration(Mutex<HashMap<String, Sums>>);

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    counted: f64,
    reported: f64,
}

/// What of the sums stays with each further call: some ten calls back, one is forgotten.
const MEMORY: f64 = 0.8;

/// What frames a prompt, or stands in it unseen, is a number of tokens and no share of them. Small prompts would make it one.
const SMALLEST: u64 = 500;

/// The most that is believed. A count that is wrong by more is one of something else.
const LARGEST_RATIO: f64 = 1.5;

/// How many models are told apart. Their names come from configuration, or else from callers: these must not fill the memory.
const MODELS: usize = 64;

impl Calibration {
    /// The ratio for that model and counter: at least 1.
    pub(crate) fn ratio(&self, key: &str) -> f64 {
        self.lock().get(key).map_or(1.0, |sums| (sums.reported / sums.counted).clamp(1.0, LARGEST_RATIO))
    }

    #[allow(clippy::cast_precision_loss)] // Tokens are few.
    pub(crate) fn learn(&self, key: &str, counted: u64, reported: u64) {
        let mut models = self.lock();
        if counted < SMALLEST || (models.len() >= MODELS && !models.contains_key(key)) {
            return;
        }
        let sums = models.entry(key.to_owned()).or_default();
        sums.counted = sums.counted * MEMORY + counted as f64;
        sums.reported = sums.reported * MEMORY + reported as f64;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Sums>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(calls: &[(u64, u64)]) -> f64 {
        let calibration = Calibration::default();
        for (counted, reported) in calls {
            calibration.learn("m", *counted, *reported);
        }
        calibration.ratio("m")
    }

    #[test]
    fn it_comes_near_to_what_is_reported() {
        assert!((learned(&[(1_000, 1_300); 3]) - 1.3).abs() < 0.01);
        let changed = learned(&[[(1_000, 1_300); 20], [(1_000, 1_100); 20]].concat());
        assert!((changed - 1.1).abs() < 0.01, "{changed}");
    }

    #[test]
    fn it_is_at_least_one_and_bounded() {
        assert_eq!(learned(&[(1_000, 500)]).to_bits(), 1.0_f64.to_bits());
        assert_eq!(learned(&[(1_000, 90_000)]).to_bits(), LARGEST_RATIO.to_bits());
        assert_eq!(learned(&[]).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn small_prompts_and_many_of_them_say_nothing() {
        assert_eq!(learned(&[(11, 33); 50]).to_bits(), 1.0_f64.to_bits());
        let mixed = learned(&[[(600, 650); 10], [(10_000, 10_050); 10]].concat());
        assert!(mixed < 1.02, "{mixed}");
    }

    #[test]
    fn models_are_told_apart_up_to_a_bound() {
        let calibration = Calibration::default();
        for model in 0..100 {
            calibration.learn(&model.to_string(), 1_000, 1_200);
        }
        assert!(calibration.ratio("3") > 1.1);
        assert_eq!(calibration.ratio("99").to_bits(), 1.0_f64.to_bits());
    }
}
