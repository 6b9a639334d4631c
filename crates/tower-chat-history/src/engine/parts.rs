//! The parts of an engine, which its clones and its turns share. No part knows who uses it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tower_chat_history_core::{Appended, ConversationId, HistoryStore, Revision, StoreError};
use tracing::{Instrument as _, Span};

use super::{
    detached::DetachedStreams,
    last_seen::LastSeen,
    queue::{Place, QueuePermit, QueuePlace, Queues},
    rates::Rates,
    recall::RecallWorker,
    repairs::Repairs,
    retention::{ExchangeFacts, Retainer},
    saves::InFlight,
    store::BoundedStore,
    summaries::SummaryWorker,
};
use crate::{
    context::{budget::Calibration, tokens::CountCache},
    error::HistoryError,
    options::HistoryOptions,
    policy::{OnConflict, QueueLimits},
    report::ResponseShape,
    telemetry::{self, Recorder, WaitFor},
};

pub(super) struct Parts {
    pub(super) store: BoundedStore,
    /// Prunes the store. `None` without a retention.
    pub(super) retainer: Option<Retainer>,
    /// Makes summaries. `None` if summaries are not configured.
    pub(super) summaries: Option<SummaryWorker>,
    /// Recalls messages. `None` if recall is not configured.
    pub(super) recall: Option<RecallWorker>,
    pub(super) repairs: Repairs,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) detached: Arc<DetachedStreams>,
    /// The background tasks: saves and detached streams whose callers have left, summaries, and other work after turns.
    pub(super) tasks: TaskTracker,
    queues: Arc<Queues>,
    /// Queues of the calls that store tool results: one call at a time per conversation.
    pub(super) storing_results: Arc<Queues>,
    /// The cache of token counts, for messages that were stored without counts.
    pub(super) counts: Arc<CountCache>,
    pub(super) calibration: Calibration,
    pub(super) unreadable: UnreadableShapes,
    pub(super) last_seen: LastSeen,
    pub(super) rates: Rates,
}

impl Parts {
    pub(super) fn new(store: Arc<dyn HistoryStore>, retainer: Option<Retainer>, options: HistoryOptions) -> Self {
        let recorder = Recorder::new(&options.telemetry, store.system(), &options.context.profile);
        let tasks = TaskTracker::new();
        let rates = Rates::new(&options.limits);
        let summaries = options.summaries.clone();
        let recall = options.recall.clone();
        let store = BoundedStore::new(store, Arc::new(options), recorder.clone());

        Self {
            summaries: summaries.map(|summaries| SummaryWorker::new(store.clone(), summaries, tasks.clone())),
            recall: recall.map(|recall| RecallWorker::new(recall, recorder.clone(), tasks.clone())),
            repairs: Repairs::new(store.clone(), tasks.clone()),
            in_flight: Arc::new(InFlight::new(recorder, tasks.clone())),
            detached: Arc::default(),
            store,
            retainer,
            tasks,
            queues: Arc::default(),
            storing_results: Arc::default(),
            counts: Arc::default(),
            calibration: Calibration::default(),
            unreadable: UnreadableShapes::default(),
            last_seen: LastSeen::default(),
            rates,
        }
    }

    pub(super) fn options(&self) -> &HistoryOptions {
        self.store.options()
    }

    pub(super) const fn recorder(&self) -> &Recorder {
        self.store.recorder()
    }

    /// Waits for the conversation's earlier calls, if its calls are queued, then for its pending saves, and until the
    /// position of a repaired turn is stored. Calls `before_wait` before each of these waits. Returns the permit of the
    /// queue, if there is one.
    pub(super) async fn wait_for_earlier(
        &self,
        conversation: &ConversationId,
        turn: &Span,
        before_wait: &mut (dyn FnMut() + Send),
    ) -> Result<Option<QueuePermit>, HistoryError> {
        let mut permit = None;
        if let OnConflict::Serialize(limits) = self.options().policies.on_conflict {
            permit = Some(match self.queues.enter(conversation, limits) {
                Ok(Place::First(permit)) => permit,
                Ok(Place::Behind(place)) => {
                    before_wait();
                    Box::pin(self.wait_in_queue(place, limits, turn)).await?
                }
                Err(full) => {
                    telemetry::fail(&telemetry::wait(turn, WaitFor::Queue), full.kind());
                    return Err(full);
                }
            });
        }

        if self.in_flight.has(conversation) || self.repairs.has(conversation) {
            before_wait();
            let saved = Box::pin(self.all_stored(conversation));
            saved.instrument(telemetry::wait(turn, WaitFor::Saves)).await;
        }
        Ok(permit)
    }

    /// Waits for the earlier calls. The earlier call may be a stream that is complete but no longer polled. It holds
    /// the queue until its save ends, and nothing else may poll that save. The wait therefore polls both the queue and
    /// the saves.
    async fn wait_in_queue(
        &self,
        place: QueuePlace,
        limits: QueueLimits,
        turn: &Span,
    ) -> Result<QueuePermit, HistoryError> {
        let span = telemetry::wait(turn, WaitFor::Queue);
        let permit = place.wait(limits, &self.in_flight).instrument(span.clone()).await;
        if let Err(error) = &permit {
            telemetry::fail(&span, error.kind());
        }
        permit
    }

    async fn all_stored(&self, conversation: &ConversationId) {
        self.in_flight.saved(conversation).await;
        // A save may have begun it.
        self.repairs.stored(conversation).await;
    }

    /// Prunes the conversation if a prune is due now, and returns the log's revision afterward.
    pub(super) async fn retain(&self, id: &ConversationId, stored: &Appended, facts: ExchangeFacts) -> Revision {
        match &self.retainer {
            Some(retainer) => Box::pin(retainer.retain(&self.store, id, stored, facts)).await,
            None => stored.revision,
        }
    }
}

/// Returns the runtime of the call, or an error if there is none.
pub(super) fn runtime() -> Result<Handle, HistoryError> {
    Handle::try_current().map_err(|error| HistoryError::Load(StoreError::backend(error)))
}

/// The shapes of responses for which an engine has logged that the adapter cannot read them.
#[derive(Debug, Default)]
pub(super) struct UnreadableShapes(Mutex<Vec<ResponseShape>>);

impl UnreadableShapes {
    /// Logs a warning for the first response of each shape. A service that returns one such response usually returns
    /// many.
    pub(super) fn warn(&self, shape: ResponseShape) {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !warned.contains(&shape) {
            warned.push(shape);
            drop(warned);
            tracing::warn!(
                %shape,
                "an exchange was not stored because the adapter cannot read the response; each shape is logged once"
            );
        }
    }
}
