//! Loading a call's conversation.

use tower_chat_history_context::plan::{History, TranscriptError, transcript};
use tower_chat_history_core::{Compaction, Loaded, Recorded, Window};

use super::Call;
use crate::{
    error::HistoryError,
    policy::{OnLoadFailure, OnTranscriptMismatch},
    report::HistoryStatus,
};

/// The history that was loaded for a call.
#[derive(Clone)]
pub(in crate::engine) struct LoadedHistory {
    pub(super) status: HistoryStatus,
    pub(in crate::engine) window: Option<Window>,
    /// The caller's transcript, in place of a history that could not be loaded.
    resent: Vec<Recorded>,
    /// The number of messages that were loaded.
    pub(super) messages: usize,
    /// Where the transcript differs from the log, if the log is trusted.
    pub(super) mismatch: Option<TranscriptError>,
}

impl Call {
    /// Loads the conversation, and compares it with the transcript.
    pub(in crate::engine) async fn load_history(&self) -> Result<LoadedHistory, HistoryError> {
        let options = self.engine.options();
        let loaded = self.engine.bounded_store().load(&self.conversation, self.exchange.as_ref(), &self.span).await;
        let (status, window) = match loaded {
            Ok(Loaded::AlreadyRecorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
            Ok(Loaded::Window(window)) => (HistoryStatus::Loaded, Some(window)),
            // Nothing was named as known, so `Unchanged` says no more than that there is nothing to load.
            Ok(Loaded::Absent | Loaded::Unchanged) => (HistoryStatus::Absent, None),
            Err(failure) => {
                let error = HistoryError::from(failure);
                let (kind, cause) = (error.kind(), error.to_string());
                if options.policies.on_load_failure == OnLoadFailure::Fail {
                    tracing::warn!(error.type = kind, error = cause, "a call fails: its history could not be loaded");
                    return Err(error);
                }
                tracing::warn!(error.type = kind, error = cause, "calling the model without history: it could not be loaded");
                (HistoryStatus::Unavailable, None)
            }
        };
        // Where there is no history to compare with, the transcript is the best there is.
        let (mut resent, mut mismatch) = (Vec::new(), None);
        match (status, options.policies.on_transcript_mismatch) {
            (HistoryStatus::Unavailable, _) => resent = Recorded::log(self.transcript.clone()),
            (_, OnTranscriptMismatch::Fail) => transcript::check(&self.transcript, window.as_ref())?,
            (_, OnTranscriptMismatch::TrustLog) => {
                mismatch = transcript::check(&self.transcript, window.as_ref()).err();
            }
        }
        let messages = window.iter().flat_map(|window| &window.exchanges);
        let messages = messages.map(|recorded| recorded.exchange.messages.len()).sum();
        Ok(LoadedHistory { status, window, resent, messages, mismatch })
    }
}

impl LoadedHistory {
    pub(super) fn history(&self) -> History<'_> {
        match (&self.window, self.status) {
            (Some(window), _) => History::Window(window),
            (None, HistoryStatus::Unavailable) => History::Resent(&self.resent),
            (None, HistoryStatus::Absent | HistoryStatus::Loaded) => History::Absent,
        }
    }

    /// Returns whether there is no such conversation.
    pub(in crate::engine) fn is_absent(&self) -> bool {
        self.status == HistoryStatus::Absent
    }

    /// Returns the history as if this compaction were stored already, and left nothing of the window.
    pub(in crate::engine) fn emptied(&self, compaction: Compaction) -> Self {
        let mut emptied = self.clone();
        if let Some(window) = &mut emptied.window {
            window.exchanges.clear();
            window.compaction = Some(compaction);
        }
        emptied
    }
}
