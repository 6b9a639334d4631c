//! The time that calls wait for a lock that another process holds.

use std::time::{Duration, Instant};

/// Tracks how long one thread, and the calls queued for it, have waited for a lock.
///
/// The timeout applies to each call, not to each attempt: while the thread waits for the lock on behalf of one call,
/// the queued calls wait for it too. A call's wait therefore starts when it was queued or when the thread first met
/// the lock, whichever is later.
#[derive(Debug)]
pub(crate) struct LockWait {
    timeout: Duration,
    /// The time when the thread met the lock; `None` if the last attempt acquired it.
    blocked_since: Option<Instant>,
}

impl LockWait {
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { timeout, blocked_since: None }
    }

    /// Returns the time at which a call fails if it does not get the lock, computed at `now`. A call whose time is over
    /// is still tried once.
    pub(crate) fn deadline(&self, queued: Instant, now: Instant) -> Instant {
        self.blocked_since.map_or(now, |since| since.max(queued)) + self.timeout
    }

    /// Notes that an attempt that began at `began` did not get the lock.
    pub(crate) fn blocked(&mut self, began: Instant) {
        self.blocked_since.get_or_insert(began);
    }

    /// Notes that an attempt got the lock.
    pub(crate) const fn acquired(&mut self) {
        self.blocked_since = None;
    }
}

/// Adds a millisecond to a wait that is not zero, because SQLite counts in whole milliseconds and drops the fraction.
pub(crate) fn rounded_up(wait: Duration) -> Duration {
    if wait.is_zero() { wait } else { wait + Duration::from_millis(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_starts_when_the_call_was_queued_or_when_the_lock_was_met() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut wait = LockWait::new(Duration::from_secs(5));
        assert_eq!(wait.deadline(at(0), at(60)), at(65), "time in a long queue does not count");
        wait.blocked(at(60));
        wait.blocked(at(62));
        assert_eq!(wait.deadline(at(0), at(64)), at(65));
        assert_eq!(wait.deadline(at(63), at(64)), at(68));
        assert_eq!(wait.deadline(at(0), at(70)), at(65), "its time is over: it is tried once, without waiting");
        wait.acquired();
        assert_eq!(wait.deadline(at(0), at(70)), at(75));
    }
}
