//! Counters made from closures, and the one that counts messages.

use std::{fmt, sync::Arc};

use tower_chat_history_core::Message;

use super::{CountMessages, TokenCounter};

/// Counts each message as one: a budget of tokens then is one of messages, of which the
/// [reply's reserve](crate::ContextBudget::reply_reserve) takes its part unless it is 0.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct MessageCount;

impl MessageCount {
    /// The counter.
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

/// A closure counts each message, with everything in it: one that counts `message.text()` alone leaves out names, tool
/// calls with their arguments, images and files, and prompts grow too large. For a tokenizer, take
/// [`PerText`](super::PerText), which counts these as the other counters do.
///
/// It has no name, so its counts are not stored, and not [corrected](crate::ContextBudget::calibrate) by what the
/// provider reports.
#[derive(Clone, Copy)]
pub struct PerMessage<F>(F);

impl<F> PerMessage<F>
where
    F: Fn(&Message) -> u32,
{
    /// The counter that asks this closure.
    pub const fn new(count: F) -> Self {
        Self(count)
    }
}

impl<F> TokenCounter for PerMessage<F>
where
    F: Fn(&Message) -> u32 + Send + Sync + 'static,
{
    /// Nobody knows what the closure depends on.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    /// As a user message.
    fn count_text(&self, text: &str) -> u32 {
        (self.0)(&Message::user(text))
    }

    fn count_message(&self, message: &Message) -> u32 {
        (self.0)(message)
    }
}

/// A closure counts a whole list, which need not cost what its messages cost one by one. More messages must not cost less.
///
/// It serves [`trim_messages`](crate::trim::trim_messages). It is asked some ten times for a thousand messages, always in the order
/// they have in the list; for a [part](crate::trim::Trim::allow_partial) of a text also for a list of none.
#[derive(Clone, Copy)]
pub struct PerList<F>(F);

impl<F> PerList<F>
where
    F: Fn(&[Message]) -> u64,
{
    /// The counter that asks this closure.
    pub const fn new(count: F) -> Self {
        Self(count)
    }
}

impl<F> CountMessages for PerList<F>
where
    F: Fn(&[Message]) -> u64,
{
    fn count(&self, messages: &[Message]) -> u64 {
        (self.0)(messages)
    }

    fn count_one(&self, _: &Message) -> Option<u64> {
        None
    }
}

impl<F> fmt::Debug for PerMessage<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerMessage").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for PerList<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerList").finish_non_exhaustive()
    }
}
