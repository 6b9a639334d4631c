//! How long calls wait for a lock that another process holds.

use std::time::{Duration, Instant};

/// The waiting of one thread for a lock, and of the calls that are queued for that thread.
///
/// The timeout is for each call and not for each try: a call that stands in the queue while the thread waits for
/// another one waits with it. So a call waits from when it was queued, or from when the thread met the lock, whichever
/// is later.
#[derive(Debug)]
pub(crate) struct LockWait {
    timeout: Duration,
    /// When the thread met the lock; `None` if it had the lock the last time.
    since: Option<Instant>,
}

impl LockWait {
    pub(crate) const fn new(timeout: Duration) -> Self {
        Self { timeout, since: None }
    }

    /// When a call that was queued then is to fail if the lock is not had, seen from `now`. It is tried once in any
    /// case.
    pub(crate) fn deadline(&self, queued: Instant, now: Instant) -> Instant {
        self.since.map_or(now, |since| since.max(queued)) + self.timeout
    }

    /// A try that began then did not get the lock.
    pub(crate) fn refused(&mut self, began: Instant) {
        self.since.get_or_insert(began);
    }

    /// The lock was had.
    pub(crate) const fn had(&mut self) {
        self.since = None;
    }
}

/// SQLite counts milliseconds: what is left of one is one.
pub(crate) fn rounded_up(wait: Duration) -> Duration {
    if wait.is_zero() { wait } else { wait + Duration::from_millis(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_from_when_they_were_queued_or_from_when_the_lock_was_met() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut wait = LockWait::new(Duration::from_secs(5));
        assert_eq!(wait.deadline(at(0), at(60)), at(65), "a long queue is no lock");
        wait.refused(at(60));
        wait.refused(at(62));
        assert_eq!(wait.deadline(at(0), at(64)), at(65));
        assert_eq!(wait.deadline(at(63), at(64)), at(68));
        assert_eq!(wait.deadline(at(0), at(70)), at(65), "its time is over: it is tried once, without waiting");
        wait.had();
        assert_eq!(wait.deadline(at(0), at(70)), at(75));
    }
}
