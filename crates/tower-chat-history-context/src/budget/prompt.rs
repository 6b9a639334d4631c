//! The sizes of a prompt's parts.

/// The sizes of a prompt's parts, in tokens by the call's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptTokens {
    /// The caller's own system and developer messages, and few-shot examples.
    pub head: u64,
    /// The tools, and the tokens that prime the reply.
    pub tools: u64,
    /// The response format.
    pub response_format: u64,
    /// What stands for the beginning of the conversation.
    pub summary: u64,
    /// The messages of the log.
    pub window: u64,
    /// The messages of this call.
    pub input: u64,
}

impl PromptTokens {
    /// What is the same with every call.
    pub(crate) const fn fixed(&self) -> u64 {
        self.head.saturating_add(self.tools).saturating_add(self.response_format).saturating_add(self.summary)
    }

    /// All of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.fixed().saturating_add(self.window).saturating_add(self.input)
    }
}

/// A prompt that does not fit the model's context window, even with everything left out that may go. The model was not
/// called.
///
/// Three settings decide: the window ([`ContextBudget::tokens`](super::ContextBudget::tokens), or the
/// [model](super::ContextBudget::model)'s), the reply's reserve
/// ([`reply_reserve`](super::ContextBudget::reply_reserve), or the request's own limit), and how far that may shrink
/// ([`shrink_reply_to`](super::ContextBudget::shrink_reply_to)).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "the prompt does not fit: head {} + tools {} + response format {} + summary {} + least of the window {} + input {} + \
     reply reserve {reply_reserve} tokens are more than the {context_window} of the context window (see the budget's window, \
     its reply_reserve and shrink_reply_to)",
    parts.head, parts.tools, parts.response_format, parts.summary, parts.window, parts.input
)]
pub struct DoesNotFit {
    /// The sizes of what has to be sent. Of the window it is the turn that the input belongs to, with the calls that it
    /// answers.
    pub parts: PromptTokens,
    /// The context window, in tokens of the provider.
    pub context_window: u64,
    /// What was reserved for the reply, in tokens of the provider.
    pub reply_reserve: u64,
}
