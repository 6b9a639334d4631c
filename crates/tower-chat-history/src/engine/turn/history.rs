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
    /// The caller's transcript, if the history could not be loaded. It is then used as history.
    resent: Vec<Recorded>,
    /// The number of messages that were loaded.
    pub(super) messages: usize,
    /// The difference between transcript and log, if there is one under `OnTranscriptMismatch::TrustLog`.
    pub(super) mismatch: Option<TranscriptError>,
}

impl Call {
    /// Loads the conversation and compares it with the transcript.
    pub(in crate::engine) async fn load_history(&self) -> Result<LoadedHistory, HistoryError> {
        let options = self.engine.options();
        let loaded = self.engine.bounded_store().load(&self.conversation, self.exchange.as_ref(), &self.span).await;
        let (status, window) = match loaded {
            Ok(Loaded::AlreadyRecorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
            Ok(Loaded::Window(window)) => (HistoryStatus::Loaded, Some(window)),
            // This load has no `known` state, so a correct store never returns `Unchanged`. It is treated as an
            // absent conversation.
            Ok(Loaded::Absent | Loaded::Unchanged) => (HistoryStatus::Absent, None),
            Err(failure) => {
                let error = HistoryError::from(failure);
                let (kind, cause) = (error.kind(), error.to_string());
                if options.policies.on_load_failure == OnLoadFailure::Fail {
                    tracing::warn!(error.type = kind, error = cause, "a call fails: its history could not be loaded");
                    return Err(error);
                }
                tracing::warn!(
                    error.type = kind,
                    error = cause,
                    "calling the model without history: the history could not be loaded"
                );
                (HistoryStatus::Unavailable, None)
            }
        };
        // If the history is unavailable, the transcript cannot be compared, and is used as history.
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

    /// Returns `true` if the conversation does not exist.
    pub(in crate::engine) fn is_absent(&self) -> bool {
        self.status == HistoryStatus::Absent
    }

    /// Returns the history as if this compaction were stored already and its window were empty.
    pub(in crate::engine) fn emptied(&self, compaction: Compaction) -> Self {
        let mut emptied = self.clone();
        if let Some(window) = &mut emptied.window {
            window.exchanges.clear();
            window.compaction = Some(compaction);
        }
        emptied
    }
}
