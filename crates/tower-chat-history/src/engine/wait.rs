//! Waiting for the earlier calls and saves of a conversation.

use std::ops::ControlFlow;

use tower_chat_history_core::ConversationId;
use tracing::{Instrument as _, Span};

use super::{
    Engine,
    queue::{Entered, QueuePermit, QueuePlace},
};
use crate::{
    error::HistoryError,
    policy::{OnConflict, QueueLimits},
    telemetry::{self, WaitFor},
};

/// The work that a call must still wait for: first the earlier calls in the conversation's queue, if there is one,
/// and then the pending saves.
pub(super) enum Ahead {
    /// The call has not entered the queue.
    Unknown,
    /// Other calls are ahead in the queue.
    Calls(QueuePlace, QueueLimits),
    /// Saves are pending, or the position of a repaired turn is being stored.
    Saves(Option<QueuePermit>),
}

impl Ahead {
    /// Waits for the work that an earlier step found, if any, and then checks for more. Returns `Continue` with the
    /// work that the next step must wait for, or `Break` if there is none.
    pub(super) async fn step(
        self,
        engine: &Engine,
        conversation: &ConversationId,
        turn: &Span,
    ) -> Result<ControlFlow<Option<QueuePermit>, Self>, HistoryError> {
        let (in_flight, repairs) = (&engine.shared.in_flight, &engine.shared.repairs);
        let permit = match (self, engine.options().policies.on_conflict) {
            (Self::Unknown, OnConflict::Rebase | OnConflict::Reject) => None,
            (Self::Unknown, OnConflict::Serialize(limits)) => match engine.shared.queues.enter(conversation, limits) {
                Err(full) => {
                    telemetry::fail(&telemetry::wait(turn, WaitFor::Queue), full.kind());
                    return Err(full);
                }
                Ok(Entered::First(permit)) => Some(permit),
                Ok(Entered::Waiting(place)) => return Ok(ControlFlow::Continue(Self::Calls(place, limits))),
            },
            (Self::Calls(place, limits), _) => {
                // The earlier call may be a stream that is complete but no longer polled. It holds the queue until
                // its save ends, and nothing else may poll that save. The wait therefore polls both the queue and the
                // saves.
                let span = telemetry::wait(turn, WaitFor::Queue);
                let permit = place.wait(limits, in_flight).instrument(span.clone()).await;
                if let Err(error) = &permit {
                    telemetry::fail(&span, error.kind());
                }
                Some(permit?)
            }
            (Self::Saves(permit), _) => {
                let saved = async {
                    in_flight.saved(conversation).await;
                    // A save may have begun it.
                    repairs.stored(conversation).await;
                };
                saved.instrument(telemetry::wait(turn, WaitFor::Saves)).await;
                return Ok(ControlFlow::Break(permit));
            }
        };
        let is_saving = in_flight.has(conversation) || repairs.has(conversation);
        Ok(if is_saving { ControlFlow::Continue(Self::Saves(permit)) } else { ControlFlow::Break(permit) })
    }

    /// Waits until all earlier calls and saves are done.
    pub(super) async fn wait(
        mut self,
        engine: &Engine,
        conversation: &ConversationId,
        turn: &Span,
    ) -> Result<Option<QueuePermit>, HistoryError> {
        loop {
            match self.step(engine, conversation, turn).await? {
                ControlFlow::Continue(ahead) => self = ahead,
                ControlFlow::Break(permit) => return Ok(permit),
            }
        }
    }
}
