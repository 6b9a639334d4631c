//! Waiting for what is ahead of a call in its conversation.

use tower_chat_history_core::ConversationId;
use tracing::{Instrument as _, Span};

use super::{
    Engine,
    queue::{Entered, QueuePermit},
};
use crate::{
    error::HistoryError,
    policy::OnConflict,
    telemetry::{self, WaitFor},
};

impl Engine {
    /// Waits for this process's pending saves of the conversation, and for its turn in the queue if there is one. Where
    /// it has to wait, it calls `release` before.
    pub(super) async fn wait(
        &self,
        conversation: &ConversationId,
        turn: &Span,
        release: &mut (impl FnMut() + Send),
    ) -> Result<Option<QueuePermit>, HistoryError> {
        let in_flight = &self.shared.in_flight;
        let permit = match self.options().on_conflict {
            OnConflict::Rebase | OnConflict::Reject => None,
            OnConflict::Serialize(queue) => Some(match self.shared.queues.enter(conversation, queue) {
                Err(full) => {
                    telemetry::fail(&telemetry::wait(turn, WaitFor::Queue), full.kind());
                    return Err(full);
                }
                Ok(Entered::First(permit)) => permit,
                // The call ahead may be a stream that is complete but no longer polled: its save frees the queue, and
                // only polling it here gets it done. So both are waited for at once.
                Ok(Entered::Waiting(place)) => {
                    release();
                    let span = telemetry::wait(turn, WaitFor::Queue);
                    let permit = place.wait(queue, in_flight).instrument(span.clone()).await;
                    if let Err(error) = &permit {
                        telemetry::fail(&span, error.kind());
                    }
                    permit?
                }
            }),
        };
        if in_flight.has(conversation) {
            release();
            let span = telemetry::wait(turn, WaitFor::Saves);
            in_flight.saved(conversation).instrument(span).await;
        }
        Ok(permit)
    }
}
