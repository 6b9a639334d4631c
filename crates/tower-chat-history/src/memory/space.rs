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

    /// Takes `bytes` bytes in place of `in_place_of` bytes that were taken before. If this would exceed the limit, it
    /// returns an error and changes nothing. A request for no more than was taken before always succeeds.
    pub(super) fn take(&self, bytes: usize, in_place_of: usize) -> Result<(), StoreError> {
        let Some(requested) = bytes.checked_sub(in_place_of).filter(|more| *more > 0) else {
            self.give_back(in_place_of - bytes);
            return Ok(());
        };
        let fits = |used: usize| used.checked_add(requested).filter(|after| *after <= self.limit);
        let taken = self.used.fetch_update(Relaxed, Relaxed, fits);
        taken.map(drop).map_err(|used| StoreError::Full { used, requested, limit: self.limit })
    }

    /// Releases bytes that were taken before.
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
