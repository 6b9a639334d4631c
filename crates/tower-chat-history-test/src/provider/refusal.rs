//! The reasons why a provider refuses a request.

use super::ChatProvider;
use crate::chat_rules::RuleViolation;

/// A request that a provider refuses, with status 400. Its text is the message of the provider's error. The text has
/// ids of calls and names of functions, but no contents of messages.
///
/// With the feature `openai` or `server`, it converts into an [`ApiFailure`](crate::ApiFailure), which has the
/// provider's body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderRefusal {
    provider: ChatProvider,
    reason: RefusalReason,
    message: String,
}

/// The reason why a provider refuses a request. Positions are indexes of messages, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The body is not a request with messages, or it has a lone surrogate.
    Unreadable,
    /// The messages violate the [chat rules](crate::check_chat_rules).
    ChatRules(RuleViolation),
    /// DeepSeek: an assistant message with calls has no `reasoning_content`.
    MissingReasoning {
        /// The position of the message.
        position: usize,
    },
    /// Gemini: a call of the current turn has no signature.
    MissingSignature {
        /// The position of the message.
        position: usize,
    },
    /// Gemini: a signature is not that of its call.
    InvalidSignature {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
    },
    /// OpenRouter and LiteLLM: the last assistant message has no thinking, and the request has the results of its
    /// calls.
    MissingThinking {
        /// The position of the message.
        position: usize,
    },
    /// OpenRouter and LiteLLM: the last assistant message lacks a part of its thinking, and the request has the results
    /// of its calls.
    ChangedThinking {
        /// The position of the message.
        position: usize,
    },
    /// OpenRouter and LiteLLM: a signature is missing, or is not that of its thinking.
    InvalidThinking {
        /// The position of the message.
        position: usize,
        /// The index of the thinking in its message, from 0.
        block: usize,
    },
    /// OpenRouter and LiteLLM: the thinking was made after other messages, tools or thinking.
    OtherConversation {
        /// The position of the message.
        position: usize,
        /// The index of the thinking in its message, from 0.
        block: usize,
    },
}

impl ProviderRefusal {
    pub(super) fn new(provider: ChatProvider, reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { provider, reason, message: message.into() }
    }

    pub(super) fn unreadable(provider: ChatProvider) -> Self {
        Self::new(provider, RefusalReason::Unreadable, "We could not parse the JSON body of your request.")
    }

    /// Returns the provider.
    #[must_use]
    pub const fn provider(&self) -> ChatProvider {
        self.provider
    }

    /// Returns the reason.
    #[must_use]
    pub const fn reason(&self) -> &RefusalReason {
        &self.reason
    }
}
