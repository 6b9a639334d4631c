//! Counters made from closures, and the counter of messages.

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

use super::TokenCounter;

/// Counts each message as one token, so that a budget limits messages instead of tokens. Set the [reply
/// reserve](crate::context::ContextBudget::reply_reserve) to 0. Otherwise the budget would reserve that many messages.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MessageCount;

impl MessageCount {
    /// Creates the counter.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl TokenCounter for MessageCount {
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    fn count_text(&self, _: &str) -> u32 {
        0
    }

    fn count_message(&self, _: &Message) -> u32 {
        1
    }

    fn reply_priming(&self) -> u32 {
        0
    }
}

/// Counts messages with a closure. The closure must count everything in a message. If it counts only `message.text()`,
/// it leaves out names, tool calls with their arguments, images and files, and prompts grow too large. For a tokenizer,
/// use [`PerText`](super::PerText), which counts these parts as the other counters do.
///
/// The counter has no name. Its counts are therefore neither stored nor
/// [corrected](crate::context::ContextBudget::calibrate) by the usage that the provider reports.
#[derive(Clone, Copy)]
pub struct PerMessage<F>(F);

impl<F> PerMessage<F>
where
    F: Fn(&Message) -> u32,
{
    /// Creates a counter from a closure.
    pub const fn new(count: F) -> Self {
        Self(count)
    }
}

impl<F> TokenCounter for PerMessage<F>
where
    F: Fn(&Message) -> u32 + Send + Sync + 'static,
{
    /// Returns `None`, because the closure may depend on more than the message.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    /// Counts the text as a user message.
    fn count_text(&self, text: &str) -> u32 {
        (self.0)(&Message::user(text))
    }

    fn count_message(&self, message: &Message) -> u32 {
        (self.0)(message)
    }
}

impl<F> fmt::Debug for PerMessage<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerMessage").finish_non_exhaustive()
    }
}
