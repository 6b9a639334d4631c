//! Counts, corrected by what providers report.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many tokens of the provider one counted token is: a moving average over this process's calls, as one number.
///
/// It is looked at when a call is planned and moved when one has been answered. Two calls at once may each move it from where
/// it was: one of them is then forgotten, which does no harm.
#[derive(Debug)]
pub(crate) struct Calibration(AtomicU64);

/// The share of a new figure: some ten calls bring it near.
const WEIGHT: f64 = 0.2;

/// A count that is wrong by more than this factor is not wrong but of something else: a provider that reports otherwise.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.25..=4.0;

impl Calibration {
    pub(crate) fn ratio(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    #[allow(clippy::cast_precision_loss)] // Tokens are few.
    pub(crate) fn learn(&self, counted: u64, reported: u64) {
        let ratio = reported as f64 / counted.max(1) as f64;
        if counted > 0 && PLAUSIBLE.contains(&ratio) {
            let moved = (1.0 - WEIGHT) * self.ratio() + WEIGHT * ratio;
            self.0.store(moved.to_bits(), Ordering::Relaxed);
        }
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Self(AtomicU64::new(1.0_f64.to_bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_near_to_what_is_reported() {
        let calibration = Calibration::default();
        for _ in 0..30 {
            calibration.learn(1_000, 1_300);
        }
        assert!((calibration.ratio() - 1.3).abs() < 0.01, "{}", calibration.ratio());
    }

    #[test]
    fn what_cannot_be_is_not_learned() {
        let calibration = Calibration::default();
        for (counted, reported) in [(0, 10), (10, 0), (10, 1_000), (1_000, 10)] {
            calibration.learn(counted, reported);
        }
        assert_eq!(calibration.ratio().to_bits(), 1.0_f64.to_bits());
    }
}
