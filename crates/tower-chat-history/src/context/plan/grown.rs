//! An estimate: is a compaction near?

use crate::context::budget::Watermark;

/// The sizes of the next window, as they are known after a turn, and the sizes that the turn added.
#[derive(Clone, Copy, Debug)]
pub struct GrownWindow {
    /// The largest next prompt that leaves the reply its reserve, in tokens.
    pub limit: u64,
    /// The tokens of prompt and reply.
    pub tokens: u64,
    /// The tokens that the turn added.
    pub new_tokens: u64,
    /// The messages of the next window.
    pub messages: usize,
    /// The messages that the turn added.
    pub new_messages: usize,
    /// The turns of the next window.
    pub turns: usize,
}

impl GrownWindow {
    /// Returns `true` if the prompt exceeds this percentage of the high watermark, or if another turn of the same size
    /// would exceed the high watermark. For watermarks that count messages or turns, only the second condition applies.
    #[must_use]
    pub fn is_near(&self, high: Watermark, percent: u8) -> bool {
        match high {
            Watermark::Percent(high) => {
                let limit = self.limit.saturating_mul(u64::from(high)) / 100;
                let near = self.tokens.saturating_mul(100) > limit.saturating_mul(u64::from(percent));
                near || self.tokens.saturating_add(self.new_tokens) > limit
            }
            Watermark::Messages(messages) => self.messages.saturating_add(self.new_messages) > messages,
            Watermark::Turns(turns) => self.turns.saturating_add(1) > turns,
        }
    }
}
