//! The engine: it begins turns and commits their replies. It works without tower.
//!
//! The [layer](crate::ChatHistoryLayer) is a thin wrapper around an engine. Code that does not call its model through
//! a tower service uses an engine directly: begin a turn, send its context to the model, and commit the reply.
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
//! If a turn is dropped before its commit, nothing is stored. If a commit is dropped, the save continues in the
//! background, because the reply has been paid for.
//!
//! An engine can be created anywhere. Its calls need a tokio runtime with a timer, and the background work ends with
//! that runtime, so [drain](Engine::drain) the engine before the runtime shuts down.

// `parts.rs` is the map: it has what the turns of an engine share, and each part is in a file of its own. `turn/` has
// the steps of a call, and `store.rs` the timeouts and retries of its store calls. `results.rs`, `explain.rs` and
// `retention.rs` are what an engine does beside turns.
mod count;
mod detached;
mod explain;
mod last_seen;
mod parts;
mod queue;
mod rates;
mod recall;
mod repairs;
mod results;
mod retention;
mod running;
mod saves;
mod store;
mod summaries;
mod translate;
mod turn;

use std::{fmt, sync::Arc, time::Duration};

use tokio::time;
use tower_chat_history_core::{ConversationId, HistoryStore, Prefix, Prune, Seq};

use self::{parts::Parts, recall::RecallWorker, retention::Retainer, summaries::SummaryWorker};
pub use self::{
    results::{StoredResults, ToolResults},
    retention::Retention,
    saves::Commit,
    turn::{
        Turn,
        stream::{self, RecordedStream},
    },
};
pub use crate::call::{CallOptions, Reply, TurnInput};
pub use crate::context::{InputMode, RequestInfo};
use crate::{
    error::{DrainError, HistoryError, StoreResultsError},
    explain::Explanation,
    options::HistoryOptions,
};

/// Loads conversations from a store and saves their turns. A clone shares the store, the options and the pending saves.
///
/// See the [module docs](self).
#[derive(Clone)]
pub struct Engine {
    parts: Arc<Parts>,
}

impl Engine {
    /// Creates an engine that stores conversations in `store`, with the [default options](HistoryOptions).
    pub fn new(store: impl HistoryStore) -> Self {
        Self::with_options(store, HistoryOptions::new())
    }

    /// Creates an engine that stores conversations in `store`, with these options.
    pub fn with_options(store: impl HistoryStore, options: HistoryOptions) -> Self {
        Self::over(Arc::new(store), None, options)
    }

    /// Creates an engine that [prunes](Prune) each conversation in `store`, so that only its newest part stays
    /// stored. [`Retention`] describes when it prunes.
    ///
    /// A prune is part of a save: it runs after the exchange is stored. Later calls of the conversation and
    /// [`drain`](Self::drain) wait until it ends. Each prune is attempted once, within the [store
    /// timeout](HistoryOptions::store_timeout). If it fails, the turn does not fail, and a later turn prunes again.
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
        Self { parts: Arc::new(Parts::new(store, retainer, options)) }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn HistoryStore> {
        self.parts.store.get()
    }

    /// Begins a turn: loads the conversation and plans the prompt.
    ///
    /// If this engine still has pending saves of the conversation, it finishes them first, so the history includes
    /// the previous turn. The load is limited by the [load limit](crate::ContextOptions::load_limit).
    ///
    /// # Errors
    ///
    /// All of these errors occur before the model is called:
    /// - [`HistoryError::Input`]: the input is not valid in this conversation.
    /// - [`HistoryError::Transcript`]: the messages that the caller resends do not match the end of the log.
    /// - [`HistoryError::DoesNotFit`]: the prompt does not fit the budget.
    /// - [`HistoryError::Limit`]: the call exceeds a [limit](crate::limits).
    /// - [`HistoryError::AlreadyRecorded`]: the log already has an exchange with this id.
    /// - [`HistoryError::Load`], [`LoadTimeout`](HistoryError::LoadTimeout): the history cannot be loaded, or there is no
    ///   tokio runtime.
    /// - [`HistoryError::QueueFull`], [`QueueTimeout`](HistoryError::QueueTimeout): too many calls wait in the
    ///   conversation's queue, or the wait took too long.
    pub async fn begin(&self, input: TurnInput) -> Result<Turn, HistoryError> {
        self.begin_with(input, &mut || {}).await
    }

    /// Begins a turn as [`begin`](Self::begin) does. Calls `before_wait` before each wait for another call, a save, a
    /// repair or a summary, for a caller that holds a resource which these may need, such as a permit of the inner
    /// service.
    pub(crate) fn begin_with(
        &self,
        input: TurnInput,
        before_wait: &mut (dyn FnMut() + Send),
    ) -> impl Future<Output = Result<Turn, HistoryError>> + Send {
        turn::begin(&self.parts, Box::new(input), before_wait)
    }

    /// Stores tool results without calling the model. Use it if some tool calls already have results while others do
    /// not, for example because a person must approve them or because they take hours.
    ///
    /// The results are stored as a separate exchange that [continues](crate::Exchange::continues) the exchange with
    /// the calls. The input of the next [turn](Self::begin) is then one of these:
    /// - the missing results, if some calls are still open,
    /// - an empty input, if all results are stored (through the layer: a request without messages after its head),
    /// - all results of the round, if the caller resends its list ([`InputMode::Transcript`]),
    /// - a new user message, which is treated according to [`OnOpenTurn`](crate::policy::OnOpenTurn) if calls are
    ///   still open.
    ///
    /// A result is stored only while its call is open. If several processes answer the same call, only one of them
    /// succeeds: the append requires that the log has not changed since the results were checked. If it has changed,
    /// the results are checked again. If the future is dropped before it completes, either all of its results are
    /// stored or none.
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
    /// // One result is available immediately. The process may exit after storing it.
    /// let found = Message::tool("search", "2 offers");
    /// let stored = engine.store_results(ToolResults::new(id.clone(), [found])).await?;
    /// assert_eq!(stored.open.ids().map(AsRef::as_ref).collect::<Vec<&str>>(), ["buy"]);
    ///
    /// // The next day, somebody approves the other call.
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
    /// Nothing is stored in these cases. All but the last are [`StoreResultsError::History`]:
    /// - [`HistoryError::Input`]: there is no message, a message is not a tool result, or it answers no open call.
    /// - [`HistoryError::Limit`]: a message, or all of them together, exceed their [limit](crate::limits). No other limit
    ///   applies.
    /// - The history cannot be loaded.
    /// - [`HistoryError::QueueTimeout`]: other calls of this engine that store results in this conversation took
    ///   longer than 60 seconds. With [`OnConflict::Serialize`](crate::policy::OnConflict::Serialize), also the
    ///   limits of that queue apply.
    /// - [`StoreResultsError::Contended`]: in each of 16 attempts, the conversation changed between check and append.
    ///
    /// After [`StoreResultsError::Save`], the results may or may not be stored. It is safe to repeat the call if the
    /// caller has set an [exchange id](ToolResults::exchange).
    pub async fn store_results(&self, results: ToolResults) -> Result<StoredResults, StoreResultsError> {
        results::store(&self.parts, results).await
    }

    /// Explains what the model saw when it made the reply at this position: which messages were sent, cleared or left
    /// out, and why. Returns `None` if the log has no exchange at this position.
    ///
    /// The prompt is made again from the log, and a digest proves that it is the one that was sent. The engine needs
    /// the [options](crate::ContextOptions) with which the prompt was made: the profile, the format of summaries, and the
    /// clearing of results. The exchanges before the window are not read. See the [module](crate::explain).
    ///
    /// ```
    /// use tower_chat_history::{
    ///     ConversationId, Engine, MemoryStore, Message, Reply, TurnInput, explain::{Fate, Subject}, store::Seq,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let id = ConversationId::new(["acme", "user-42"])?;
    /// for question in ["Who is Tom?", "What does he chase?"] {
    ///     let turn = engine.begin(TurnInput::new(id.clone(), [Message::user(question)])).await?;
    ///     turn.commit(Reply::new(Message::assistant("…"))).await?;
    /// }
    ///
    /// let second = engine.explain(&id, Seq::new(1)).await?.ok_or("no such exchange")?;
    /// assert_eq!(second.sent().map(Message::text).collect::<Vec<_>>(), ["Who is Tom?", "…", "What does he chase?"]);
    /// let rows = second.prompt?;
    /// assert!(rows.iter().all(|row| row.fate == Fate::Sent));
    /// assert_eq!(rows[0].subject, Subject::Logged { seq: Seq::FIRST, index: 0, translated: false });
    /// assert_eq!(rows[2].subject, Subject::Input { index: 0 });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`HistoryError::Load`], [`LoadTimeout`](HistoryError::LoadTimeout): the log or the summary cannot be read.
    /// - [`HistoryError::OtherDialect`]: an exchange is in a dialect that is not one of the
    ///   [options](crate::HistoryOptions::dialects).
    /// - [`HistoryError::Composed`]: a dialect cannot read its own message.
    ///
    /// That a prompt is not known is no error: see [`Explanation::prompt`].
    pub async fn explain(&self, conversation: &ConversationId, seq: Seq) -> Result<Option<Explanation>, HistoryError> {
        explain::explain(&self.parts, conversation, seq).await
    }

    /// Returns the number of pending saves of this engine: replies that are complete and not stored yet.
    #[must_use]
    pub fn pending_saves(&self) -> usize {
        self.parts.in_flight.saves()
    }

    /// Finishes the pending saves of this conversation in this engine.
    ///
    /// Call it before you edit a conversation directly in the store ([`Truncate`](crate::store::Truncate),
    /// `take_last`). Otherwise the reply of a turn whose caller has just left may be stored after the edit.
    pub async fn saved(&self, conversation: &ConversationId) {
        self.parts.in_flight.saved(conversation).await;
    }

    /// Removes what this engine keeps in memory of the conversations under the prefix: positions, hashes of prompts,
    /// and what [recall](crate::recall::Recall::forget) keeps, such as hashes of words and vectors. Call it after you
    /// have deleted, [erased](crate::store::Erase) or [truncated](crate::store::Truncate) conversations, also if another
    /// process did so. Later turns make them again.
    ///
    /// Numbers stay in memory for some conversations, with their ids: counts for retention, pauses after failed
    /// summaries, and [rates](crate::limits). Each of these tables has a limited number of entries.
    ///
    /// Turns and preparations of recall that are running keep what they have loaded, and may add something again until
    /// they end. A [`CachedStore`](crate::CachedStore) forgets what is erased through it, and has [a
    /// method](crate::CachedStore::forget) for what others erase.
    pub fn forget(&self, under: &Prefix) {
        let Parts { last_seen, store, recall, .. } = &*self.parts;
        last_seen.forget(under);
        store.recorder().forget(under);
        if let Some(recall) = recall {
            recall.forget(under);
        }
    }

    /// Finishes all pending saves, lessons of [refused](Turn::remedy) calls, running summaries and preparations of
    /// [recall](crate::recall), and waits for detached streams. Call it before the runtime shuts down, after the last call
    /// has ended or was dropped: what is still pending then is lost with the runtime. With the default options, each of
    /// these has a timeout, so the wait ends even with a long `timeout` (for streams see
    /// [`DetachLimits`](crate::policy::DetachLimits)).
    ///
    /// If tasks are always ready, tokio looks at its timers only after 61 polls of tasks, so `timeout` may end late. A
    /// preparation by `LogRecall` computes for about a millisecond in each poll.
    ///
    /// # Errors
    ///
    /// Returns an error with the numbers of pending saves, streams, cuts, summaries and preparations if some are still
    /// pending after `timeout`. They go on while the runtime lives.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with a timer.
    pub async fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let Parts { in_flight, detached, tasks, repairs, summaries, recall, .. } = &*self.parts;
        let drained = async {
            in_flight.all_saved().await;
            tasks.close();
            tasks.wait().await;
        };
        time::timeout(timeout, drained).await.map_err(|_| DrainError {
            saves: in_flight.saves(),
            streams: detached.len(),
            repairs: repairs.running(),
            summaries: summaries.as_ref().map_or(0, SummaryWorker::running),
            preparations: recall.as_ref().map_or(0, RecallWorker::running),
        })
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("store", self.store())
            .field("retainer", &self.parts.retainer)
            .field("options", self.parts.options())
            .finish_non_exhaustive()
    }
}
