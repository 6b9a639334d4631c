//! What a request costs besides its messages.

use super::TokenCounter;

/// What primes the reply of OpenAI's chat models, in tokens. Source: OpenAI's cookbook, "How to count tokens with tiktoken".
pub const REPLY_PRIMING: u32 = 3;

/// What a request has besides its messages, and what that costs.
///
/// Schemas are counted as the JSON they are. Providers rewrite them to something shorter before the model sees them, in ways
/// they do not publish, so this is a little more than what they charge.
///
/// ```
/// use tower_chat_history_context::tokens::{ByteEstimate, RequestTokens};
///
/// let tools = r#"[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]"#;
/// let cost = RequestTokens::new().tools(tools).count(&ByteEstimate::new());
/// assert_eq!(cost, 3 + 21);
/// ```
#[derive(Clone, Copy, Default)]
pub struct RequestTokens<'a> {
    tools: Option<&'a str>,
    response_format: Option<&'a str>,
}

impl<'a> RequestTokens<'a> {
    /// A request that has messages only: the reply is primed all the same.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The JSON of the tools. The default is none.
    #[must_use]
    pub const fn tools(mut self, json: &'a str) -> Self {
        self.tools = Some(json);
        self
    }

    /// The JSON of the response format. The default is none.
    #[must_use]
    pub const fn response_format(mut self, json: &'a str) -> Self {
        self.response_format = Some(json);
        self
    }

    /// The tokens of all this.
    #[must_use]
    pub fn count<C: TokenCounter + ?Sized>(self, counter: &C) -> u32 {
        let schemas = [self.tools, self.response_format].into_iter().flatten();
        schemas.map(|json| counter.count_text(json)).fold(counter.reply_priming(), u32::saturating_add)
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
