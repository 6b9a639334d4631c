//! The state that the clones of an engine share.

use std::sync::Arc;

use tokio_util::task::TaskTracker;
use tower_chat_history_core::HistoryStore;

use super::{
    in_flight::InFlight, last_seen::LastSeen, queue::Queues, rates::Rates, recall::RecallWorker, repair::Repairs,
    retention::Retainer, store::BoundedStore, summaries::SummaryWorker, unreadable::Unreadable,
};
use crate::{
    context::{budget::Calibration, tokens::CountCache},
    options::HistoryOptions,
    telemetry::Recorder,
};

pub(super) struct Shared {
    pub(super) store: BoundedStore,
    /// Prunes the store. `None` without a retention.
    pub(super) retainer: Option<Retainer>,
    /// Makes summaries. `None` if summaries are not configured.
    pub(super) summaries: Option<SummaryWorker>,
    /// Recalls messages. `None` if recall is not configured.
    pub(super) recall: Option<RecallWorker>,
    pub(super) repairs: Repairs,
    pub(super) in_flight: Arc<InFlight>,
    /// The background tasks: saves and detached streams whose callers have left, summaries, and other work after turns.
    pub(super) tasks: TaskTracker,
    pub(super) queues: Arc<Queues>,
    /// Queues of the calls that store tool results: one call at a time per conversation.
    pub(super) storing_results: Arc<Queues>,
    /// The cache of token counts, for messages that were stored without counts.
    pub(super) counts: Arc<CountCache>,
    pub(super) calibration: Calibration,
    pub(super) unreadable: Unreadable,
    pub(super) last_seen: LastSeen,
    pub(super) rates: Rates,
}

impl Shared {
    pub(super) fn new(store: Arc<dyn HistoryStore>, retainer: Option<Retainer>, options: HistoryOptions) -> Self {
        let recorder = Recorder::new(&options.telemetry, store.system(), &options.context.profile);
        let in_flight = Arc::new(InFlight::new(recorder.clone()));
        let store = BoundedStore::new(store, Arc::new(options), recorder);
        let rates = Rates::new(&store.options().limits);
        let tasks = TaskTracker::new();
        let (summaries, recall) = (store.options().summaries.clone(), store.options().recall.clone());
        Self {
            summaries: summaries.map(|summaries| SummaryWorker::new(store.clone(), summaries, tasks.clone())),
            recall: recall.map(|recall| RecallWorker::new(recall, tasks.clone())),
            repairs: Repairs::new(store.clone(), tasks.clone()),
            store,
            retainer,
            in_flight,
            tasks,
            queues: Arc::default(),
            storing_results: Arc::default(),
            counts: Arc::default(),
            calibration: Calibration::default(),
            unreadable: Unreadable::default(),
            last_seen: LastSeen::default(),
            rates,
        }
    }
}
