//! The tokens of the parts of a request other than its messages.

use super::TokenCounter;

/// The tokens that prime the reply of OpenAI's chat models. Source: OpenAI's cookbook, "How to count tokens with
/// tiktoken".
pub const REPLY_PRIMING: u32 = 3;

/// Counts the tokens of a request other than those of its messages: tools, response format, and the priming of the
/// reply. If there are tools, the tokens that the provider [adds](TokenCounter::tools_priming) count too.
///
/// Schemas are counted as JSON. Providers convert them to a shorter form, which they do not publish, before the model
/// sees them. The count is therefore slightly higher than what they charge.
///
/// ```
/// use tower_chat_history::tokens::{ByteEstimate, RequestTokens};
///
/// let tools = r#"[{"type":"function","function":{"name":"weather","parameters":{}}}]"#;
/// let cost = RequestTokens::new().tools(tools).count(&ByteEstimate::new());
/// assert_eq!(cost, 3 + 17); // 3 prime the reply.
/// ```
#[derive(Clone, Copy, Default)]
pub struct RequestTokens<'a> {
    tools: Option<&'a str>,
    response_format: Option<&'a str>,
}

impl<'a> RequestTokens<'a> {
    /// Creates a request without tools and response format. Its count is that of the reply's priming.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the JSON of the tools. The default is none.
    #[must_use]
    pub const fn tools(mut self, json: &'a str) -> Self {
        self.tools = Some(json);
        self
    }

    /// Sets the JSON of the response format. The default is none.
    #[must_use]
    pub const fn response_format(mut self, json: &'a str) -> Self {
        self.response_format = Some(json);
        self
    }

    /// Returns the sum of the tokens.
    #[must_use]
    pub fn count<C: TokenCounter + ?Sized>(self, counter: &C) -> u32 {
        let schemas = [self.tools, self.response_format].into_iter().flatten();
        let added = self.tools.map_or(0, |_| counter.tools_priming());
        let priming = counter.reply_priming().saturating_add(added);
        schemas.map(|json| counter.count_text(json)).fold(priming, u32::saturating_add)
    }
}

impl std::fmt::Debug for RequestTokens<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestTokens")
            .field("tools", &self.tools.map(str::len))
            .field("response_format", &self.response_format.map(str::len))
            .finish()
    }
}
