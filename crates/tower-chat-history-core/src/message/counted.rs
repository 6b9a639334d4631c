//! What a message costs, remembered with it.

use std::sync::{Arc, OnceLock};

use super::Message;

/// One counter's count. The first one stays: a message has room for one, and callers mostly have one counter.
#[derive(Debug, Default)]
pub(super) struct Counted(OnceLock<(Arc<str>, u32)>);

impl Message {
    /// What the counter of that name counted for this message, in tokens, if that is [remembered](Self::remember_tokens).
    #[must_use]
    pub fn tokens_by(&self, counter: &str) -> Option<u32> {
        self.0.counted.0.get().filter(|(name, _)| **name == *counter).map(|(_, tokens)| *tokens)
    }

    /// Remembers what a counter counted, so that a message is counted once in its life: all clones know it, and an
    /// [exchange](crate::Exchange::tokens) stores it with the message.
    ///
    /// One count is remembered, the first one; `false` says that there is one already. It is no part of the message: neither
    /// its JSON nor its equality knows of it.
    #[allow(clippy::must_use_candidate)] // Mostly it does not matter who was first.
    pub fn remember_tokens(&self, counter: &Arc<str>, tokens: u32) -> bool {
        self.0.counted.0.set((Arc::clone(counter), tokens)).is_ok()
    }
}
