//! Counting the bytes of a store against its limit.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tower_chat_history_core::StoreError;

/// Counts bytes against a limit. The counter does not publish other data, so relaxed ordering suffices.
#[derive(Debug)]
pub(super) struct Space {
    limit: usize,
    used: AtomicUsize,
}

impl Space {
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Reserves `bytes` bytes in place of `replaced` bytes that were reserved before. If the sum of all reservations
    /// would exceed the limit, returns an error and changes nothing. If `bytes` is at most `replaced`, always
    /// succeeds.
    pub(super) fn take(&self, bytes: usize, replaced: usize) -> Result<(), StoreError> {
        let Some(requested) = bytes.checked_sub(replaced).filter(|more| *more > 0) else {
            self.give_back(replaced - bytes);
            return Ok(());
        };
        let fits = |used: usize| used.checked_add(requested).filter(|after| *after <= self.limit);
        let taken = self.used.fetch_update(Relaxed, Relaxed, fits);
        taken.map(drop).map_err(|used| StoreError::Full { used, requested, limit: self.limit })
    }

    /// Releases bytes that were reserved before.
    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_takes_no_space() {
        let space = Space::new(10);
        space.take(6, 0).unwrap();
        let full = space.take(5, 0).unwrap_err();
        assert!(matches!(full, StoreError::Full { used: 6, requested: 5, limit: 10 }), "{full}");
        assert!(space.take(usize::MAX, 0).is_err(), "sums do not wrap");
        space.take(4, 0).unwrap();
        space.give_back(6);
        assert_eq!(space.used(), 4);
        space.take(12, 4).unwrap_err();
        space.take(10, 4).unwrap();
        space.take(3, 10).unwrap();
        assert_eq!(space.used(), 3);
    }
}
