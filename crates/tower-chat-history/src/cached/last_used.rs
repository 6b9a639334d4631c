//! The times at which cached items were last used, so that idle ones can be removed.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// The time for which an unused item stays in a cache: one hour.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The pause between two searches for idle items. A search looks at all items.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// The clock of a cache. It counts milliseconds since the cache was created.
#[derive(Debug)]
pub(super) struct UseClock {
    start: Instant,
    /// The time of the last search for idle items.
    searched: AtomicU64,
}

/// The time at which an item was last used.
#[derive(Debug, Default)]
pub(super) struct LastUsed(AtomicU64);

impl UseClock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), searched: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        millis(self.start.elapsed())
    }

    /// Records that an item is used now.
    pub(super) fn touch(&self, item: &LastUsed) {
        item.0.store(self.now(), Ordering::Relaxed);
    }

    /// Returns a test for items that have been unused for this long.
    pub(super) fn idle_for(&self, limit: Duration) -> impl Fn(&LastUsed) -> bool + use<> {
        let (now, limit) = (self.now(), millis(limit));
        move |item| now.saturating_sub(item.0.load(Ordering::Relaxed)) >= limit
    }

    /// Returns `true` if it is time to search for idle items. Of several callers at the same time, one gets `true`.
    pub(super) fn is_search_due(&self) -> bool {
        let (now, before) = (self.now(), self.searched.load(Ordering::Relaxed));
        now.saturating_sub(before) >= millis(PAUSE)
            && self.searched.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_idle_after_the_limit() {
        let clock = UseClock::new();
        let item = LastUsed::default();
        clock.touch(&item);
        assert!(clock.idle_for(Duration::ZERO)(&item));
        assert!(!clock.idle_for(IDLE_LIMIT)(&item));
    }

    #[test]
    fn no_search_is_due_at_first() {
        assert!(!UseClock::new().is_search_due());
    }
}
