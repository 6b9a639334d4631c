//! Token counts that messages remember.

use std::{
    ptr,
    sync::{Arc, OnceLock},
};

use super::Message;

/// The name of a counter, and its count in tokens. Only the first count is stored, because most callers use a single
/// counter.
#[derive(Debug, Default)]
pub(super) struct Counted(OnceLock<(Arc<str>, u32)>);

impl Message {
    /// Returns the number of tokens that the counter with this name has counted, or `None` if no count of it was
    /// [remembered](Self::remember_tokens).
    #[inline]
    #[must_use]
    pub fn tokens_by(&self, counter: &str) -> Option<u32> {
        // Most names are the same `Arc`. Its address is compared faster than its text.
        let is_same = |name: &Arc<str>| ptr::eq(&**name, counter) || **name == *counter;
        self.0.counted.0.get().filter(|(name, _)| is_same(name)).map(|(_, tokens)| *tokens)
    }

    /// Remembers a counter's result, so that a message is counted only once. All clones share it, and an
    /// [exchange](crate::Exchange::tokens) stores it with the message.
    ///
    /// Only the first count is remembered. Returns `false` if there is one already. The count is not part of the
    /// message: neither its JSON nor its equality depends on it.
    #[allow(clippy::must_use_candidate)] // Most callers do not need the returned value.
    pub fn remember_tokens(&self, counter: &Arc<str>, tokens: u32) -> bool {
        self.0.counted.0.set((Arc::clone(counter), tokens)).is_ok()
    }
}
