//! The memory that a message takes.

use super::{Message, Parsed};
use crate::memory::{block, shared};

impl Message {
    /// Returns an estimate of the memory that this message takes, in bytes: its JSON, the copies in its index
    /// (names, ids, and the arguments of tool calls), and a constant. Clones share this memory.
    ///
    /// A message with reasoning that is [bound](Self::bound) counts twice, because it keeps a copy
    /// [without](Self::unbound) that reasoning after the first prompt that needs it.
    #[must_use]
    pub fn memory(&self) -> usize {
        let own = shared(size_of::<Parsed>()) + block(self.bytes()) + self.index().memory();
        if self.bound().can_be_removed() { 2 * own } else { own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_bound_reasoning_counts_with_its_copy() {
        let said = "x".repeat(10_000);
        let plain = Message::assistant(&said);
        let block = r#"{"type":"thinking","thinking":"t","signature":"s"}"#;
        let signed = format!(r#"{{"role":"assistant","content":"{said}","thinking_blocks":[{block}]}}"#);
        let signed = Message::from_json(signed).unwrap();
        assert!(plain.memory() < 11_000 && (20_000..22_000).contains(&signed.memory()));
    }
}
