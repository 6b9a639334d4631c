//! Locking a mutex that may be poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a test panicked while it held the lock: no section leaves its data half changed.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
