//! The commit protocol, without tower: begin a turn, send its context, commit the reply.
//!
//! The [layer](crate::ChatHistoryLayer) is a thin shell around this. Code that has no tower service uses it directly:
//!
//! ```
//! use tower_chat_history::{ConversationId, Engine, MemoryStore, Message, Reply, TurnInput};
//!
//! # async fn my_model(context: &[Message]) -> Result<Message, std::io::Error> { Ok(Message::assistant("Mice!")) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(MemoryStore::new());
//! let id = ConversationId::new(["acme", "user-42"])?;
//!
//! let turn = engine.begin(TurnInput::new(id, [Message::user("What does Tom chase?")])).await?;
//! let reply = my_model(turn.context()).await?;
//! let report = turn.commit(Reply::new(reply)).await?;
//! assert!(report.revision().is_some());
//! # Ok(())
//! # }
//! ```
//!
//! A turn that is dropped before its commit leaves the conversation as it was. A commit that is dropped goes on by itself:
//! the reply is paid for.

mod basis;
mod begin;
mod call;
mod commit;
mod count;
mod ending;
mod guard;
mod in_flight;
mod input;
mod last_seen;
mod load;
mod queue;
mod reply;
mod request;
mod results;
mod retention;
mod save;
mod summaries;
mod timer;
mod traced;
pub(crate) mod transcript;
mod turn;
mod unreadable;
mod wait;

use std::{fmt, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use tower_chat_history_core::{ConversationId, HistoryStore, Prune};

pub use self::{
    commit::Commit,
    input::{CallOptions, TurnInput},
    reply::Reply,
    request::RequestInfo,
    results::{StoredResults, ToolResults},
    retention::Retention,
    transcript::InputMode,
    turn::Turn,
};
pub(crate) use self::{in_flight::Detached, timer::Timer};
use self::{
    in_flight::InFlight,
    last_seen::LastSeen,
    queue::Queues,
    retention::Retainer,
    summaries::{Pauses, Summarizing},
    unreadable::Unreadable,
};
use crate::{
    DrainError, HistoryOptions, budget::Calibration, discard::discard_item, spawn::spawn_guarded,
    stream::RecordedStream, telemetry::Recorder, tokens::CountCache,
};

/// Remembers conversations in a store. A clone shares the store, the options and what is in flight.
///
/// See the [module docs](self).
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn HistoryStore>,
    /// What prunes that store, if it is to be pruned.
    retainer: Option<Retainer>,
    options: HistoryOptions,
    in_flight: Arc<InFlight>,
    queues: Arc<Queues>,
    /// Calls that store tool results, one at a time in a conversation.
    storing_results: Arc<Queues>,
    /// Counts of messages that do not remember them.
    counts: Arc<CountCache>,
    calibration: Calibration,
    summarizing: Arc<Summarizing>,
    pauses: Pauses,
    unreadable: Unreadable,
    last_seen: LastSeen,
    recorder: Recorder,
}

impl Engine {
    /// An engine over that store, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore) -> Self {
        Self::with_options(store, HistoryOptions::new())
    }

    /// An engine over that store.
    pub fn with_options(store: impl HistoryStore, options: HistoryOptions) -> Self {
        Self::over(Arc::new(store), None, options)
    }

    /// An engine that keeps no more than the end of each conversation in that store, which must be able to
    /// [prune](Prune). [`Retention`] says when it does so.
    ///
    /// Pruning is a part of the save of the exchange after which it is done: later calls and [`drain`](Self::drain) wait for it
    /// as for that. It is tried once, for as long as the [store timeout](HistoryOptions::store_timeout), and does not fail the
    /// turn.
    ///
    /// ```
    /// use tower_chat_history::{ChatHistoryLayer, Engine, HistoryOptions, MemoryStore, Retention, adapt::Json};
    ///
    /// let engine = Engine::with_retention(MemoryStore::new(), HistoryOptions::new(), Retention::LastTurns(100));
    /// let layer = ChatHistoryLayer::from_engine(engine, Json::new());
    /// ```
    #[doc(alias = "trim")]
    pub fn with_retention(store: impl Prune, options: HistoryOptions, retention: Retention) -> Self {
        let store = Arc::new(store);
        let retainer = Retainer::new(Arc::clone(&store) as Arc<dyn Prune>, retention);
        Self::over(store, Some(retainer), options)
    }

    fn over(store: Arc<dyn HistoryStore>, retainer: Option<Retainer>, options: HistoryOptions) -> Self {
        let recorder = Recorder::new(&options.telemetry, store.system(), &options.profile);
        let shared = Shared {
            store,
            retainer,
            options,
            in_flight: Arc::new(InFlight::new(recorder.clone())),
            queues: Arc::default(),
            storing_results: Arc::default(),
            counts: Arc::default(),
            calibration: Calibration::default(),
            summarizing: Arc::default(),
            pauses: Pauses::default(),
            unreadable: Unreadable::default(),
            last_seen: LastSeen::default(),
            recorder,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Another engine over the same store, with other options and the same retention.
    pub(crate) fn with_changed(&self, change: impl FnOnce(HistoryOptions) -> HistoryOptions) -> Self {
        let retainer = self.shared.retainer.as_ref().map(Retainer::renewed);
        Self::over(Arc::clone(self.store()), retainer, change(self.options().clone()))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn HistoryStore> {
        &self.shared.store
    }

    pub(crate) fn options(&self) -> &HistoryOptions {
        &self.shared.options
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// How many saves are pending in this process: replies that are complete and not stored yet.
    #[must_use]
    pub fn pending_saves(&self) -> usize {
        self.shared.in_flight.saves()
    }

    /// Finishes the saves of that conversation that are pending in this process.
    ///
    /// Call it before you edit a conversation by hand ([`Truncate`](crate::Truncate), `take_last`): a reply whose caller has
    /// just left may not be in the log yet.
    pub async fn saved(&self, conversation: &ConversationId) {
        self.shared.in_flight.saved(conversation).await;
    }

    /// Finishes every pending save and every summary under way, and waits for detached streams. Call it before the
    /// runtime shuts down. It ends by itself, since all of these are bounded in time (see
    /// [`DetachLimits`](crate::DetachLimits)).
    ///
    /// Outside of a tokio runtime there is no clock: it then waits without a limit.
    ///
    /// # Errors
    ///
    /// When something is still pending after `timeout`. What its caller has left to the spawner goes on being tried.
    pub async fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let (in_flight, summarizing) = (&self.shared.in_flight, &self.shared.summarizing);
        // Streams and saves come first: a turn that ends may have a summary made.
        let drained = async {
            in_flight.drained().await;
            summarizing.drained().await;
        };
        timer::timeout(Some(timeout), drained).await.map_err(|_| DrainError {
            saves: in_flight.saves(),
            streams: in_flight.streams(),
            summaries: summarizing.len(),
        })
    }

    /// Returns the right to read on a stream of the conversation whose caller has left, if the limits leave a place.
    pub(crate) fn place_for_detached(&self, conversation: &ConversationId) -> Option<Detached> {
        self.shared.in_flight.detached(conversation, self.options().detach_limits)
    }

    /// Reads on a stream whose caller has left, which is counted until it ends.
    pub(crate) fn detach<T, E>(&self, mut stream: RecordedStream<T, E>, place: Detached)
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let limit = self.options().detach_limits.timeout;
        let task = async move {
            let _place = place;
            let rest = stream.by_ref().for_each(|item| {
                discard_item(item);
                std::future::ready(())
            });
            if timer::timeout(limit, rest).await.is_err() {
                stream.give_up();
            }
        };
        spawn_guarded(&*self.shared.options.spawn, Box::pin(task));
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", &self.shared.store)
            .field("retainer", &self.shared.retainer)
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}
