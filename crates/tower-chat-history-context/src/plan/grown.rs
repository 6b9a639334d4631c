//! Whether a compaction is near.

use crate::budget::Watermark;

/// The next window as it is known after a turn, and what that turn added to it.
#[derive(Clone, Copy, Debug)]
pub struct GrownWindow {
    /// The tokens that the next prompt may have beside the reply's reserve.
    pub limit: u64,
    /// The tokens of prompt and reply, and how many of them are new.
    pub tokens: u64,
    pub new_tokens: u64,
    /// The next window's messages, and how many of them are new.
    pub messages: usize,
    pub new_messages: usize,
    /// The next window's turns.
    pub turns: usize,
}

impl GrownWindow {
    /// Returns whether the window came near to the mark at which a compaction starts, which is that share of the mark in
    /// percent, or another turn like the last one would get there.
    #[must_use]
    pub fn is_near(&self, start: Watermark, percent: u8) -> bool {
        match start {
            Watermark::Percent(start) => {
                let limit = self.limit.saturating_mul(u64::from(start)) / 100;
                let near = self.tokens.saturating_mul(100) > limit.saturating_mul(u64::from(percent));
                near || self.tokens.saturating_add(self.new_tokens) > limit
            }
            Watermark::Messages(messages) => self.messages.saturating_add(self.new_messages) > messages,
            Watermark::Turns(turns) => self.turns.saturating_add(1) > turns,
        }
    }
}
