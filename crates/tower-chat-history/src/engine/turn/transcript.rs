//! Comparing the list that a caller resends with the log.

use tower_chat_history_core::{Message, Recorded};

use super::Call;
use crate::{
    context::{
        InputError,
        plan::{TranscriptError, transcript},
    },
    error::HistoryError,
    policy::OnTranscriptMismatch,
};

impl Call {
    /// Compares the transcript with the log. Returns the difference, if the policy accepts one.
    ///
    /// A list that ends with a reply has no input. If the log ends with this reply, the call continues it, as far as
    /// the log allows a call without input. Otherwise the caller wrote the reply itself.
    pub(super) fn compare_transcript(&self, log: Option<&[Recorded]>) -> Result<Option<TranscriptError>, HistoryError> {
        let Err(mismatch) = transcript::check(&self.transcript, log) else { return Ok(None) };
        if self.input.is_empty() && self.transcript.last().is_some_and(Message::is_reply) {
            let position = self.transcript.len() - 1;
            if mismatch.position == position {
                return Err(InputError::Prefill { position }.into());
            }
        }
        match self.engine.options().policies.on_transcript_mismatch {
            OnTranscriptMismatch::Fail => Err(mismatch.into()),
            OnTranscriptMismatch::TrustLog => Ok(Some(mismatch)),
        }
    }
}
