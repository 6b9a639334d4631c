//! Clearing: replacing old tool results by a placeholder.

use tower_chat_history_core::{CallId, Message};

/// Replaces the content of old tool results by a placeholder, as LangChain's `ClearToolUsesEdit` does. Calls and their
/// arguments stay, so the model still sees its own actions.
///
/// Clearing is the first step of a [compaction](super::Watermarks). The oldest results are cleared first. If that makes
/// the window small enough, no message is left out. Results that were cleared once stay cleared in later prompts. The
/// log keeps the original results.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(default, deny_unknown_fields))]
pub struct ClearResults {
    pub(crate) keep: usize,
    #[cfg_attr(feature = "config", serde(rename = "clear_at_least_tokens"))]
    pub(crate) at_least: u64,
    #[cfg_attr(feature = "config", serde(rename = "exclude_tools"))]
    pub(crate) exclude: Vec<String>,
    pub(crate) placeholder: String,
}

impl ClearResults {
    /// Creates the default options: the 3 newest results are kept, and older ones replaced by `[cleared]`.
    #[must_use]
    pub fn new() -> Self {
        Self { keep: 3, at_least: 0, exclude: Vec::new(), placeholder: "[cleared]".to_owned() }
    }

    /// Sets how many of the newest results are never cleared. The default is 3. Results of the same exchange are
    /// cleared together, so a few more may be kept.
    #[must_use]
    pub const fn keep(mut self, results: usize) -> Self {
        self.keep = results;
        self
    }

    /// Sets the smallest number of tokens that a clearing should free. The default is 0. Clearing changes the prompt's
    /// beginning, so the provider's prefix cache loses the rest of the prompt. Clearing therefore continues after the
    /// window fits, until it has freed this many tokens or no more results can be cleared.
    #[must_use]
    pub const fn clear_at_least(mut self, tokens: u64) -> Self {
        self.at_least = tokens;
        self
    }

    /// Sets the tools whose results are never cleared. The default is none.
    #[must_use]
    pub fn exclude_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.exclude = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the text that replaces a result's content. The default is `[cleared]`.
    #[must_use]
    pub fn placeholder(mut self, text: impl Into<String>) -> Self {
        self.placeholder = text.into();
        self
    }

    /// Returns the message with cleared results, or `None` if it has none, or if their tools are excluded. `tool`
    /// returns the name of the tool of a call.
    pub(crate) fn clear<'n>(&self, message: &Message, tool: &dyn Fn(&CallId) -> Option<&'n str>) -> Option<Message> {
        let clears = |id: &CallId| !tool(id).is_some_and(|tool| self.exclude.iter().any(|name| name == tool));
        if message.answers().is_empty() { None } else { message.cleared(&clears, &self.placeholder) }
    }
}

impl Default for ClearResults {
    fn default() -> Self {
        Self::new()
    }
}
