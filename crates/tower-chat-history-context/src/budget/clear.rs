//! Old tool results, replaced by a placeholder.

use tower_chat_history_core::Message;

/// Replaces the content of old tool results by a placeholder before anything else is left out: LangChain's
/// `ClearToolUsesEdit`. Calls and their arguments stay, so the model still sees what it did.
///
/// It is a stage of a [compaction](super::Watermarks): it begins when the window is to be compacted, the oldest results go first,
/// and where that is enough, nothing else goes. What is cleared stays cleared. The log keeps the results.
#[derive(Clone, Debug)]
pub struct ClearResults {
    pub(crate) keep: usize,
    pub(crate) at_least: u64,
    pub(crate) exclude: Vec<String>,
    pub(crate) placeholder: String,
}

impl ClearResults {
    /// Keeps the 3 newest results, and replaces older ones by `[cleared]`.
    #[must_use]
    pub fn new() -> Self {
        Self { keep: 3, at_least: 0, exclude: Vec::new(), placeholder: "[cleared]".to_owned() }
    }

    /// How many of the newest results are kept as they are. The default is 3. Results that stand in one exchange are cleared
    /// together, so a few more may be kept.
    #[must_use]
    pub const fn keep(mut self, results: usize) -> Self {
        self.keep = results;
        self
    }

    /// How many tokens are to be gained at least, where there are results for it: it goes on clearing although the window
    /// fits, so that a provider's cache is broken for something. The default is 0.
    #[must_use]
    pub const fn clear_at_least(mut self, tokens: u64) -> Self {
        self.at_least = tokens;
        self
    }

    /// The tools whose results are never cleared. The default is none.
    #[must_use]
    pub fn exclude_tools<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.exclude = names.into_iter().map(Into::into).collect();
        self
    }

    /// What a result's content is replaced by. The default is `[cleared]`.
    #[must_use]
    pub fn placeholder(mut self, text: impl Into<String>) -> Self {
        self.placeholder = text.into();
        self
    }

    /// The result, cleared; `None` where it is excluded.
    pub(crate) fn clear(&self, result: &Message, tool: Option<&str>) -> Option<Message> {
        let excluded = tool.is_some_and(|tool| self.exclude.iter().any(|name| name == tool));
        (!excluded).then(|| result.with_text(&self.placeholder))
    }
}

impl Default for ClearResults {
    fn default() -> Self {
        Self::new()
    }
}
