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

mod begin;
mod commit;
mod count;
mod idle;
mod in_flight;
mod last_seen;
mod queue;
mod results;
mod retention;
mod store;
pub mod stream;
mod summaries;
mod timer;
mod turn;
mod unreadable;
mod wait;

use std::{fmt, sync::Arc, time::Duration};

use tower_chat_history_context::{budget::Calibration, tokens::CountCache};
use tower_chat_history_core::{Appended, ConversationId, HistoryStore, Prune, Revision};

pub(crate) use self::begin::{Beginning, Step};
pub use self::{
    commit::Commit,
    results::{StoredResults, ToolResults},
    retention::Retention,
    stream::RecordedStream,
    turn::Turn,
};
use self::{
    in_flight::InFlight,
    last_seen::LastSeen,
    queue::Queues,
    retention::{Added, Retainer},
    store::BoundedStore,
    summaries::SummaryWorker,
    unreadable::Unreadable,
};
pub use crate::{
    call::{CallOptions, Reply, TurnInput},
    spawn::{Spawn, TokioSpawn},
};
use crate::{
    error::{DrainError, HistoryError, StoreResultsError},
    options::HistoryOptions,
    telemetry::Recorder,
};
pub use tower_chat_history_context::request::{InputMode, RequestInfo};

/// Remembers conversations in a store. A clone shares the store, the options and what is in flight.
///
/// See the [module docs](self).
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

struct Shared {
    store: BoundedStore,
    /// Prunes the store, if it is to be pruned.
    retainer: Option<Retainer>,
    /// Makes summaries, if there are to be some.
    summaries: Option<SummaryWorker>,
    in_flight: Arc<InFlight>,
    queues: Arc<Queues>,
    /// Calls that store tool results, one at a time in a conversation.
    storing_results: Arc<Queues>,
    /// Counts of messages that do not remember them.
    counts: Arc<CountCache>,
    calibration: Calibration,
    unreadable: Unreadable,
    last_seen: LastSeen,
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
        let recorder = Recorder::new(&options.telemetry, store.system(), &options.context.profile);
        let in_flight = Arc::new(InFlight::new(recorder.clone()));
        let store = BoundedStore::new(store, Arc::new(options), recorder);
        let summaries = store.options().summaries.clone();
        let shared = Shared {
            summaries: summaries.map(|summaries| SummaryWorker::new(store.clone(), summaries)),
            store,
            retainer,
            in_flight,
            queues: Arc::default(),
            storing_results: Arc::default(),
            counts: Arc::default(),
            calibration: Calibration::default(),
            unreadable: Unreadable::default(),
            last_seen: LastSeen::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn HistoryStore> {
        self.shared.store.get()
    }

    pub(crate) fn options(&self) -> &HistoryOptions {
        self.shared.store.options()
    }

    fn recorder(&self) -> &Recorder {
        self.shared.store.recorder()
    }

    /// The store, with the bounds of the options.
    fn bounded_store(&self) -> &BoundedStore {
        &self.shared.store
    }

    /// Prunes the conversation, if it is time for that, and returns the revision after that.
    async fn retain(&self, id: &ConversationId, stored: &Appended, added: Added) -> Revision {
        match &self.shared.retainer {
            Some(retainer) => retainer.retain(&self.shared.store, id, stored, added).await,
            None => stored.revision,
        }
    }

    /// Begins a turn: loads the conversation and plans what is sent.
    ///
    /// Saves of this conversation that are still pending in this process are finished first, so a turn sees the one before
    /// it. The load is bounded by the [load limit](crate::ContextOptions::load_limit).
    ///
    /// # Errors
    ///
    /// Before the model is called: when there is no input or it does not fit the conversation
    /// ([`HistoryError::Input`]), when what the caller resends is not the log's end ([`HistoryError::Transcript`]), when the
    /// prompt does not fit the budget ([`HistoryError::DoesNotFit`]), when the exchange id is recorded already
    /// ([`HistoryError::AlreadyRecorded`]), when the history cannot be loaded, or when the conversation's queue is full or
    /// slow.
    pub async fn begin(&self, input: TurnInput) -> Result<Turn, HistoryError> {
        let mut beginning = self.start(input);
        loop {
            match beginning.step().await? {
                Step::MustWait(rest) => beginning = rest,
                Step::Begun(turn) => return Ok(turn),
            }
        }
    }

    /// Begins a turn in steps, for a caller that holds something of the model's service.
    pub(crate) fn start(&self, input: TurnInput) -> Beginning {
        Beginning::new(self, input)
    }

    /// Stores tool results before the model is called: some of the calls are answered, others wait (for a person's
    /// approval, or a job that runs for hours).
    ///
    /// The results become an exchange of their own that [continues](crate::Exchange::continues) the exchange with the calls.
    /// The next [turn](Self::begin) brings the results that are still missing as its input; when all are stored, its
    /// input is empty. Both hold at every door: a request without messages after its head is then legal. Until the
    /// model has answered, a new question supersedes the calls that are still open, as ever. A caller that resends its
    /// list ([`InputMode::Transcript`]) sends all results of the round.
    ///
    /// A result is stored only while its call is open, and of several processes that answer one call only one succeeds:
    /// the append expects the log that the results were checked against, and they are checked anew if that has changed.
    /// Dropping the future before it is done leaves the results stored or not stored, never in part.
    ///
    /// ```
    /// # use tower_chat_history::{
    /// #     BoxError, ConversationId, Engine, MemoryStore, Message, Reply, TurnInput, engine::ToolResults,
    /// # };
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), BoxError> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// let turn = engine.begin(TurnInput::new(id.clone(), [Message::user("Look it up and buy it.")])).await?;
    /// # let calls = r#"{"role":"assistant","content":null,"tool_calls":[
    /// #     {"id":"search","type":"function","function":{"name":"search","arguments":"{}"}},
    /// #     {"id":"buy","type":"function","function":{"name":"buy","arguments":"{}"}}]}"#;
    /// # let two_calls = Message::from_json(calls)?;
    /// turn.commit(Reply::new(two_calls)).await?;
    ///
    /// // One result is there at once. The process may end now.
    /// let found = Message::tool("search", "2 offers");
    /// let stored = engine.store_results(ToolResults::new(id.clone(), [found])).await?;
    /// assert_eq!(stored.open.ids().collect::<Vec<_>>(), ["buy"]);
    ///
    /// // The next day somebody approves the other one.
    /// let bought = Message::tool("buy", "done");
    /// let stored = engine.store_results(ToolResults::new(id.clone(), [bought])).await?;
    /// assert!(stored.open.is_empty());
    ///
    /// let turn = engine.begin(TurnInput::new(id, [])).await?;
    /// assert_eq!(turn.context().len(), 4);
    /// turn.commit(Reply::new(Message::assistant("I bought it."))).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Nothing is stored when a message is no result or answers no open call ([`InputError`](crate::error::InputError) in
    /// [`StoreResultsError::History`]), when the history cannot be loaded, when other calls of this process store
    /// results of the conversation for a minute, or when other processes change it all the time. After
    /// [`StoreResultsError::Save`] the outcome may be unknown; repeating it with the same [exchange
    /// id](ToolResults::exchange) is safe.
    pub async fn store_results(&self, results: ToolResults) -> Result<StoredResults, StoreResultsError> {
        results::store(self, results).await
    }

    /// How many saves are pending in this process: replies that are complete and not stored yet.
    #[must_use]
    pub fn pending_saves(&self) -> usize {
        self.shared.in_flight.saves()
    }

    /// Finishes the saves of that conversation that are pending in this process.
    ///
    /// Call it before you edit a conversation by hand ([`Truncate`](crate::store::Truncate), `take_last`): a reply whose caller has
    /// just left may not be in the log yet.
    pub async fn saved(&self, conversation: &ConversationId) {
        self.shared.in_flight.saved(conversation).await;
    }

    /// Finishes every pending save and every summary under way, and waits for detached streams. Call it before the
    /// runtime shuts down. It ends by itself, since all of these are bounded in time (see
    /// [`DetachLimits`](crate::policy::DetachLimits)).
    ///
    /// Outside of a tokio runtime there is no clock: it then waits without a limit.
    ///
    /// # Errors
    ///
    /// When something is still pending after `timeout`. What its caller has left to the spawner goes on being tried.
    pub async fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let (in_flight, summaries) = (&self.shared.in_flight, self.shared.summaries.as_ref());
        // Streams and saves come first: a turn that ends may have a summary made.
        let drained = async {
            in_flight.drained().await;
            if let Some(summaries) = summaries {
                summaries.drained().await;
            }
        };
        timer::timeout(Some(timeout), drained).await.map_err(|_| DrainError {
            saves: in_flight.saves(),
            streams: in_flight.streams(),
            summaries: summaries.map_or(0, SummaryWorker::running),
        })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", self.store())
            .field("retainer", &self.shared.retainer)
            .field("options", self.options())
            .finish_non_exhaustive()
    }
}
