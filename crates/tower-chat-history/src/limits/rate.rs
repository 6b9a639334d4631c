//! Rates, and their arithmetic.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A rate of calls in all conversations together whose ids begin with the same parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(deny_unknown_fields))]
pub(crate) struct Rate {
    /// The number of parts.
    pub(crate) parts: usize,
    /// The number of calls per minute.
    pub(crate) calls: u32,
}

/// Decides if a call may begin, at a rate of this many calls per minute. All times are counted from one fixed time.
///
/// Each call uses up a part of a minute, and the parts of successive calls follow each other. `used_until` is the end
/// of the last part, and 0 before the first call. A call may begin if its part ends at most a minute from now. This
/// is the generic cell rate algorithm, with a minute's calls as its burst.
///
/// # Errors
///
/// If the call may not begin, returns the time until it may, or `None` at a rate of 0. Otherwise, returns the new
/// `used_until`.
pub(crate) fn admit(per_minute: u32, used_until: Duration, now: Duration) -> Result<Duration, Option<Duration>> {
    let part = MINUTE.checked_div(per_minute).ok_or(None)?;
    let until = used_until.max(now).saturating_add(part);
    match until.saturating_sub(now).saturating_sub(MINUTE) {
        Duration::ZERO => Ok(until),
        wait => Err(Some(wait)),
    }
}

/// Reads rates, each for another number of parts.
#[cfg(feature = "config")]
pub(super) fn of_different_parts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Rate>, D::Error> {
    use serde::{Deserialize as _, de::Error as _};

    let rates = Vec::<Rate>::deserialize(deserializer)?;
    for (at, rate) in rates.iter().enumerate() {
        if rates[..at].iter().any(|other| other.parts == rate.parts) {
            return Err(D::Error::custom("repeated parts, expected another number of parts in each element"));
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes calls with these pauses before them. Returns the times at which calls began.
    fn begun(per_minute: u32, pauses: &[u64]) -> Vec<Duration> {
        let (mut now, mut used_until, mut begun) = (Duration::ZERO, Duration::ZERO, Vec::new());
        for pause in pauses {
            now += Duration::from_millis(*pause);
            if let Ok(until) = admit(per_minute, used_until, now) {
                used_until = until;
                begun.push(now);
            }
        }
        begun
    }

    #[test]
    fn the_calls_of_a_minute_may_begin_at_once_and_then_one_at_a_time() {
        let mut used_until = Duration::ZERO;
        let now = Duration::from_secs(1_000);
        for _ in 0..6 {
            used_until = admit(6, used_until, now).unwrap();
        }
        let wait = Duration::from_secs(10);
        assert_eq!(admit(6, used_until, now), Err(Some(wait)));
        assert_eq!(admit(6, used_until, now + wait / 2), Err(Some(wait / 2)));
        let used_until = admit(6, used_until, now + wait).unwrap();
        assert_eq!(admit(6, used_until, now + wait), Err(Some(wait)));
    }

    #[test]
    fn a_rate_of_zero_refuses_all_calls() {
        assert_eq!(admit(0, Duration::ZERO, Duration::from_secs(1 << 30)), Err(None));
    }

    proptest! {
        #[test]
        fn no_time_has_more_calls_than_a_burst_and_the_rate(
            per_minute in 1..200_u32,
            pauses in prop::collection::vec(0..5_000_u64, 1..200),
        ) {
            let begun = begun(per_minute, &pauses);
            for (first, from) in begun.iter().enumerate() {
                for (last, to) in begun.iter().enumerate().skip(first) {
                    let time = (*to - *from).as_secs_f64();
                    let allowed = f64::from(per_minute) * (1.0 + time / 60.0);
                    prop_assert!((last - first + 1) as f64 <= allowed + 1e-3);
                }
            }
        }

        #[test]
        fn a_call_that_waits_as_told_is_admitted(
            per_minute in 1..=u32::MAX,
            used in 0..600_000_u64,
            now in 0..600_000_u64,
        ) {
            let [used_until, now] = [used, now].map(Duration::from_millis);
            if let Err(wait) = admit(per_minute, used_until, now) {
                let wait = wait.unwrap();
                prop_assert!(!wait.is_zero() && admit(per_minute, used_until, now + wait).is_ok());
                prop_assert!(admit(per_minute, used_until, now + wait - Duration::from_nanos(1)).is_err());
            }
        }
    }
}
