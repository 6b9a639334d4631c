//! The options of imports.

use tower_chat_history_core::{ConversationId, Prefix};

use super::report::Reason;

/// The options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub(super) max_line: usize,
    renamed: Option<(Prefix, Prefix)>,
}

impl ImportOptions {
    /// The default maximum size of a line: 128 MiB.
    pub const MAX_LINE: usize = 128 << 20;

    /// Creates options with the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_line: Self::MAX_LINE, renamed: None }
    }

    /// Sets the maximum size of a line, in bytes. A longer line counts as damaged and is not kept in memory. The
    /// default is [`MAX_LINE`](Self::MAX_LINE).
    #[must_use]
    pub const fn max_line(mut self, bytes: usize) -> Self {
        self.max_line = bytes;
        self
    }

    /// Imports the conversations under the prefix `from` under the prefix `to`, with the same further parts. By
    /// default, ids stay as they are. Conversations that are not under `from` are skipped.
    #[must_use]
    pub fn rename(mut self, from: Prefix, to: Prefix) -> Self {
        self.renamed = Some((from, to));
        self
    }

    /// Returns the id under which a conversation is imported.
    pub(super) fn target(&self, id: &ConversationId) -> Result<ConversationId, Reason> {
        let Some((from, to)) = &self.renamed else { return Ok(id.clone()) };
        if !from.contains(id) {
            return Err(Reason::OtherPrefix);
        }
        let rest = id.as_str().strip_prefix(from.as_str()).unwrap_or_default().trim_start_matches('/');
        let parts: Vec<&str> = [to.as_str(), rest].into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/").parse().map_err(Reason::Id)
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self::new()
    }
}
