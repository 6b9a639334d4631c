//! Replacing the sealed form of an exchange.

use std::sync::Arc;

use tower_chat_history_core::{Exchange, Incarnation, Seq, StoreError};

use super::{Log, size::entry_bytes};
use crate::memory::space::Space;

impl Log {
    /// Replaces an exchange by another form of it, if it still has the expected content. Returns an error, and changes
    /// nothing, if the conversation has another incarnation, or if there is no space.
    pub(in crate::memory) fn reseal(
        &mut self,
        incarnation: Incarnation,
        seq: Seq,
        from: &Exchange,
        to: Exchange,
        space: &Space,
    ) -> Result<bool, StoreError> {
        if incarnation != self.incarnation {
            return Err(StoreError::Gone);
        }
        let (index, is_before) = (self.index(seq), seq < self.seq(0));
        let is_expected = |stored: &Exchange| stored.sealed == from.sealed && stored.is_resealed_as(&to);
        let found = self.entries.get(index).filter(|entry| !is_before && is_expected(&entry.exchange));
        let Some(replaced) = found.map(|entry| entry.memory) else { return Ok(false) };
        let memory = entry_bytes(&to);
        self.take(memory, replaced, space)?;
        if let Some(entry) = self.entries.get_mut(index) {
            (entry.exchange, entry.memory) = (Arc::new(to), memory);
        }
        Ok(true)
    }
}
