//! What a request has besides its new messages.

use tower_chat_history_core::Message;

/// What a request has besides its new messages, as far as it counts for the [budget](crate::budget). Adapters fill it in; the
/// default is nothing.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RequestInfo {
    /// The model it names.
    pub model: Option<String>,
    /// Who serves it, by OpenTelemetry's name for that (`gen_ai.provider.name`), such as `openai`.
    pub provider: Option<&'static str>,
    /// The messages that come before the window: system and developer messages, and few-shot examples.
    pub head: Vec<Message>,
    /// The JSON of its tools.
    pub tools: Option<String>,
    /// The JSON of its response format.
    pub response_format: Option<String>,
    /// How many tokens the reply may have, by the request itself.
    pub max_output: Option<u32>,
    /// Whether the adapter cannot lower that limit: the budget then does not [shrink](crate::ContextBudget::shrink_reply_to)
    /// it.
    pub max_output_is_fixed: bool,
    /// The temperature it asks for. It is told in spans and counts for nothing else.
    pub temperature: Option<f64>,
    /// The nucleus sampling it asks for. It is told in spans and counts for nothing else.
    pub top_p: Option<f64>,
}

impl RequestInfo {
    /// A request of which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for RequestInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestInfo")
            .field("model", &self.model)
            .field("provider", &self.provider)
            .field("head", &self.head.len())
            .field("tools", &self.tools.as_deref().map(str::len))
            .field("response_format", &self.response_format.as_deref().map(str::len))
            .field("max_output", &self.max_output)
            .finish_non_exhaustive()
    }
}
