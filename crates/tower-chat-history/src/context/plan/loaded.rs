//! The window of a conversation, as an engine has loaded it.

use tower_chat_history_core::{CompactionVersion, Cut, Cuts, Recorded, Revision, Window, backend::RecordError};

/// A [`Window`] whose compaction has been read.
#[derive(Clone, Debug)]
pub struct LoadedWindow {
    pub revision: Revision,
    /// The version of the stored compaction.
    pub version: CompactionVersion,
    /// The cuts of the stored compaction, if there is one.
    pub cuts: Option<Cuts>,
    pub exchanges: Vec<Recorded>,
    /// True if the load limit cut off exchanges that belong to the window.
    pub truncated: bool,
    /// The size of the whole log in bytes of message JSON.
    pub log_bytes: u64,
}

impl LoadedWindow {
    /// # Errors
    ///
    /// Returns an error if the compaction cannot be read.
    pub fn read(window: Window) -> Result<Self, RecordError> {
        Ok(Self {
            revision: window.revision,
            version: window.compaction_version(),
            cuts: window.compaction.as_ref().map(Cuts::read).transpose()?,
            exchanges: window.exchanges,
            truncated: window.truncated,
            log_bytes: window.log_bytes,
        })
    }

    /// Returns the newest cut.
    #[must_use]
    pub fn cut(&self) -> Option<&Cut> {
        self.cuts.as_ref().map(|cuts| &cuts.cut)
    }
}
