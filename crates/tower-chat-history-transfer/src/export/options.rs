//! The options of exports.

use std::sync::Arc;

use tower_chat_history_core::{Attach, AttachmentName, List, Profile};

/// The parts of conversations to export besides their logs and labels. By default, there are none.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    pub(super) profiles: Vec<Profile>,
    pub(super) with_recall: bool,
    pub(super) attachments: Option<(Arc<dyn Attach>, Vec<AttachmentName>)>,
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

    /// Adds the attachments with these names, at most 64 MiB for each name and conversation. The store must be the one
    /// whose conversations are exported. The default is none. The index of recall need not be exported, because it is
    /// made again.
    #[must_use]
    pub fn attachments(mut self, store: Arc<dyn Attach>, names: impl IntoIterator<Item = AttachmentName>) -> Self {
        self.attachments = Some((store, names.into_iter().collect()));
        self
    }
}

/// The store and the parts to export.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) store: Arc<dyn List>,
    pub(super) options: ExportOptions,
}
