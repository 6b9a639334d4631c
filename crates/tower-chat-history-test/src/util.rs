//! Small helpers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a test panicked while it held the lock. The data is valid then: no code panics in the middle
/// of a change.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the text in pieces of this many characters, at least 1.
pub(crate) fn pieces(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars.max(1)).map(|piece| piece.iter().collect()).collect()
}
