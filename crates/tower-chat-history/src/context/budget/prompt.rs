//! The sizes of a prompt's parts, and the account of how its window was made smaller.

/// The sizes of a prompt's parts, in tokens by the call's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptTokens {
    /// The caller's system and developer messages, and few-shot messages.
    pub head: u64,
    /// The tools, and the tokens that prime the reply.
    pub tools: u64,
    /// The response format.
    pub response_format: u64,
    /// The summary of the conversation's beginning, or the tokens that are reserved for it.
    pub summary: u64,
    /// The messages of the log that are sent, with the recalled messages of earlier turns.
    pub window: u64,
    /// The messages that were recalled for this call, or the tokens that are reserved for them.
    pub recalled: u64,
    /// The messages of this call.
    pub input: u64,
}

impl PromptTokens {
    /// Returns the tokens of the parts that are the same at every call.
    pub(crate) const fn fixed(&self) -> u64 {
        self.head.saturating_add(self.tools).saturating_add(self.response_format).saturating_add(self.summary)
    }

    /// Returns the tokens of all parts.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.fixed().saturating_add(self.window).saturating_add(self.recalled).saturating_add(self.input)
    }
}

/// A prompt that does not fit the model's context window, even without the messages that may be left out. The model was
/// not called.
///
/// To make it fit, change one of three settings:
///
/// - the context window: [`ContextBudget::tokens`](super::ContextBudget::tokens), or that of the
///   [model](super::ContextBudget::model),
/// - the reply reserve: [`reply_reserve`](super::ContextBudget::reply_reserve), or the request's own limit of the
///   reply,
/// - the smallest reserve: [`shrink_reply_to`](super::ContextBudget::shrink_reply_to).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[error(
    "the prompt does not fit: head {} + tools {} + response format {} + summary {} + required part of the window {} + \
     input {} + reply reserve {reply_reserve} exceed the context window of {context_window} tokens: {}raise the budget's \
     context window, or lower reply_reserve or shrink_reply_to",
    parts.head, parts.tools, parts.response_format, parts.summary, parts.window, parts.input, bound(*turn_is_bound)
)]
pub struct DoesNotFit {
    /// The sizes of the parts that have to be sent. If the input answers tool calls, the required part of the window is
    /// their round and the beginning of its turn, without earlier rounds. Otherwise no part of the window is required.
    pub parts: PromptTokens,
    /// The context window, in tokens of the provider. Some models also have a limit for prompts alone (the field
    /// `input` of their [limits](super::ModelLimits)). If that limit plus the reply reserve is smaller than the context
    /// window, this field has the sum.
    pub context_window: u64,
    /// The reply reserve, in tokens of the provider. If it may shrink, this is its smallest size.
    pub reply_reserve: u64,
    /// True if nothing of the window can be left out, because the turn that the input continues has reasoning that the
    /// provider [binds](tower_chat_history_core::Bound) to everything before it. The error's text then names three more
    /// ways: a new question ends the turn, a lower [low watermark](super::Watermarks) leaves more room when a turn
    /// opens, and a request can let the provider [drop such
    /// reasoning](crate::context::RequestInfo::may_drop_reasoning).
    pub turn_is_bound: bool,
}

const fn bound(turn_is_bound: bool) -> &'static str {
    if turn_is_bound {
        "the turn's reasoning is bound to the whole prompt, so nothing can be left out before the turn ends; start a new \
         turn, keep more room by a lower low watermark, let the provider drop blocks (in Anthropic's Messages API, set \
         `thinking.block_binding.prefix_mismatch_behavior` to `drop_block`), "
    } else {
        ""
    }
}

/// The reason for which a window was made smaller, and the steps that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimming {
    /// The reason, or `None` if the window did not have to become smaller.
    pub reason: Option<TrimReason>,
    /// True if results were cleared, in addition to those that earlier calls cleared.
    pub cleared_results: bool,
    /// True if rounds of tool calls were left out.
    pub left_out_rounds: bool,
    /// True if turns were left out.
    pub left_out_turns: bool,
    /// True if a [`Trimmer`](super::Trimmer) chose the turns.
    pub by_trimmer: bool,
    /// True if the choice of a [`Trimmer`](super::Trimmer) could not be used.
    pub trimmer_failed: bool,
    /// True if the reply reserve was lowered.
    pub shrunk_reply: bool,
    /// True if the stored summary was left out because there was no room for it.
    pub left_out_summary: bool,
    /// True if the recalled messages of earlier turns were left out.
    pub left_out_recalled: bool,
    /// True if [old reasoning](crate::ContextOptions::old_reasoning) was left out, in addition to that which earlier calls
    /// left out.
    pub left_out_reasoning: bool,
}

/// The reason why a window had to become smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrimReason {
    /// Too many tokens: the prompt exceeded the watermark or the limit.
    Tokens,
    /// Too many messages, by a watermark that counts them.
    Messages,
    /// Too many turns, by a watermark that counts them.
    Turns,
}

impl TrimReason {
    /// Returns a short constant name, for metrics and spans.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Messages => "messages",
            Self::Turns => "turns",
        }
    }
}

impl Trimming {
    /// Returns `true` if the window had to become smaller.
    #[must_use]
    pub const fn is_needed(&self) -> bool {
        self.reason.is_some()
    }

    /// Returns `true` if parts of the conversation were left out or cleared, so that the model does not receive them.
    #[must_use]
    pub const fn is_shortened(&self) -> bool {
        self.cleared_results || self.left_out_rounds || self.left_out_turns || self.by_trimmer || self.left_out_summary
    }

    /// Returns the names of the steps, joined with `+`, for spans. It returns `none` if there were no steps.
    #[must_use]
    pub fn strategy(&self) -> String {
        let steps = [
            (self.shrunk_reply, "shrink_reply"),
            (self.cleared_results, "clear_results"),
            (self.left_out_rounds, "rounds"),
            (self.left_out_turns, "turns"),
            (self.by_trimmer, "trimmer"),
            (self.left_out_summary, "without_summary"),
            (self.left_out_recalled, "without_recalled"),
            (self.left_out_reasoning, "without_old_reasoning"),
        ];
        let steps: Vec<&str> = steps.into_iter().filter(|(done, _)| *done).map(|(_, step)| step).collect();
        if steps.is_empty() { "none".to_owned() } else { steps.join("+") }
    }
}
