//! Waiting for what is ahead of a call in its conversation.

use tracing::{Instrument as _, Span};

use super::{Engine, call::Call, queue::QueuePermit};
use crate::{
    HistoryError, OnConflict,
    telemetry::{self, WaitFor},
};

impl Engine {
    /// Waits for this process's pending saves of the conversation, and for its turn in the queue if there is one.
    pub(super) async fn wait(&self, call: &Call) -> Result<Option<QueuePermit>, HistoryError> {
        let in_flight = &self.shared.in_flight;
        let (conversation, runtime) = (&call.conversation, call.runtime.as_ref());
        let OnConflict::Serialize(queue) = self.options().on_conflict else {
            if in_flight.has(conversation) {
                let span = telemetry::wait(&call.span, WaitFor::Saves);
                in_flight.saved(conversation).instrument(span).await;
            }
            return Ok(None);
        };
        // Whoever is ahead may be a stream that is complete but no longer polled: its save frees the queue, and only
        // polling it here gets it done. So both are waited for at once.
        let permit = async {
            let permit = self.shared.queues.wait(conversation, queue, in_flight, runtime).await?;
            in_flight.saved(conversation).await;
            Ok(permit)
        };
        let is_behind = self.shared.queues.has(conversation) || in_flight.has(conversation);
        let span = if is_behind { telemetry::wait(&call.span, WaitFor::Queue) } else { Span::none() };
        let permit = permit.instrument(span.clone()).await;
        if let Err(error) = &permit {
            telemetry::fail(&span, HistoryError::kind(error));
        }
        permit.map(Some)
    }
}
