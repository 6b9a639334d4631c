//! The memory that a message takes.

use super::{Message, Parsed, Role, ToolCall};
use crate::memory::{block, shared};

impl Message {
    /// Returns an estimate of the memory that this message takes, in bytes: its JSON, the copies in its index
    /// (names, ids, and the arguments of tool calls), and a constant. Clones share this memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let index = &self.0.index;
        let role = match &index.role {
            Role::Other(role) => block(role.len()),
            _ => 0,
        };
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| block(text.len()));
        let calls: usize = index.tool_calls.iter().map(ToolCall::memory).sum();
        shared(size_of::<Parsed>()) + block(self.bytes()) + role + text(&index.name) + text(&index.tool_call_id) + calls
    }
}

impl ToolCall {
    fn memory(&self) -> usize {
        block(size_of::<Self>()) + block(self.id().len()) + block(self.name().len()) + block(self.arguments().len())
    }
}
