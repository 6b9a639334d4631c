//! The parts of a request other than its new messages.

use tower_chat_history_core::{ChatCompletions, Dialect as _, Digest, Message, Origin};

/// The parts of a request, other than its new messages, that count for the [budget](crate::context::budget) or that spans
/// report. Adapters set the fields. By default, all of them are unknown or empty.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The name of the model.
    pub model: Option<String>,
    /// The provider that serves the model, as a value of OpenTelemetry's attribute `gen_ai.provider.name`, such as
    /// `openai`. It is used in spans only.
    pub provider: Option<&'static str>,
    /// The provider that is called, as far as the caller has told the adapter. It decides which
    /// [reasoning](tower_chat_history_core::Origin) is sent. An adapter's own guess does not belong here.
    pub origin: Origin,
    /// The head: the leading system and developer messages, and the few-shot messages after them.
    pub head: Vec<Message>,
    /// The JSON of the request's tools.
    pub tools: Option<String>,
    /// The JSON of the request's response format.
    pub response_format: Option<String>,
    /// The request's own limit of the reply, in tokens.
    pub max_output: Option<u32>,
    /// True if the adapter cannot lower `max_output`. The budget then does not
    /// [shrink](crate::context::ContextBudget::shrink_reply_to) the reply.
    pub max_output_is_fixed: bool,
    /// True if the model thinks with a budget, and its provider refuses results of calls before which no thinking is,
    /// as Anthropic does (as of November 2026). A constant reply then stands between results without a reply and a new
    /// question.
    pub thinks_with_budget: bool,
    /// True if the request lets the provider drop reasoning that is [bound](tower_chat_history_core::Bound) to another
    /// prompt, as `drop_block` of Anthropic does. A turn that exceeds the budget then loses its reasoning. By default,
    /// the call fails with [`DoesNotFit::turn_is_bound`](crate::context::budget::DoesNotFit::turn_is_bound).
    pub may_drop_reasoning: bool,
    /// The sampling temperature. It is used in spans only.
    pub temperature: Option<f64>,
    /// The nucleus sampling parameter. It is used in spans only.
    pub top_p: Option<f64>,
}

impl RequestInfo {
    /// Creates a value in which all parts are unknown or empty.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            model: None,
            provider: None,
            origin: Origin::UNKNOWN,
            head: Vec::new(),
            tools: None,
            response_format: None,
            max_output: None,
            max_output_is_fixed: false,
            thinks_with_budget: false,
            may_drop_reasoning: false,
            temperature: None,
            top_p: None,
        }
    }

    /// Returns the digest of the head, the tools and the response format: the parts of a request that providers put
    /// before its messages. Providers do not compare `cache_control`, so it does not count.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let part = |json: &Option<String>| ChatCompletions.digest(json.as_deref().unwrap_or_default());
        let head = self.head.iter().fold(Digest::default(), |digest, message| digest.then(message.digest()));
        head.then(part(&self.tools)).then(part(&self.response_format))
    }
}

impl std::fmt::Debug for RequestInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestInfo")
            .field("model", &self.model)
            .field("provider", &self.provider)
            .field("origin", &self.origin)
            .field("head", &self.head.len())
            .field("tools", &self.tools.as_deref().map(str::len))
            .field("response_format", &self.response_format.as_deref().map(str::len))
            .field("max_output", &self.max_output)
            .finish_non_exhaustive()
    }
}
