//! The options of exports.

use std::sync::Arc;

use tower_chat_history_core::{List, Profile};

/// The parts of conversations to export besides their logs and labels. By default, there are none.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    pub(super) profiles: Vec<Profile>,
    pub(super) with_recall: bool,
}

impl ExportOptions {
    /// Creates options to export logs and labels only.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the compactions of these profiles, with their summaries. The default is none. The default profile is
    /// [`Profile::default`].
    #[must_use]
    pub fn compactions(mut self, profiles: impl IntoIterator<Item = Profile>) -> Self {
        self.profiles = profiles.into_iter().collect();
        self
    }

    /// Adds the [recalled messages](tower_chat_history_core::Exchange::recalled) and the
    /// [provenance](tower_chat_history_core::Exchange::provenance) of each exchange. The default is `false`. Set it if
    /// the conversations move to another store: without the provenance, signed reasoning is not sent again.
    #[must_use]
    pub const fn recall_data(mut self, is_exported: bool) -> Self {
        self.with_recall = is_exported;
        self
    }
}

/// The store and the parts to export.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) store: Arc<dyn List>,
    pub(super) options: ExportOptions,
}
