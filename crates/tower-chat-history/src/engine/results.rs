//! Storing tool results as they come, without a call.

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, Loaded, Message, NewestRound, Revision, Seq,
    StoreError, Window,
};
use tracing::{Instrument as _, Span};

use super::{Engine, input::refuse_foreign, queue::Entered, retention::Added, save::Own};
use crate::{HistoryError, InputError, OpenCalls, QueueLimits, SaveError, StoreResultsError, telemetry::Saved};

/// How often results are checked anew because another process changed the conversation between check and append.
const CHECKS: u32 = 16;

/// Calls of this process that store results of one conversation take turns, or each would make all others check anew.
const ONE_AT_A_TIME: QueueLimits = QueueLimits::new(usize::MAX, Duration::from_secs(60));

/// Tool results to be stored without a call, for [`Engine::store_results`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResults {
    /// The conversation.
    pub conversation: ConversationId,
    /// Makes storing them repeatable: an exchange with this id is stored once. The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// The results: tool messages that answer open calls, at least one.
    pub results: Vec<Message>,
}

impl ToolResults {
    /// The results of open calls of that conversation.
    pub fn new(conversation: ConversationId, results: impl IntoIterator<Item = Message>) -> Self {
        Self { conversation, exchange: None, results: results.into_iter().collect() }
    }

    /// Names the exchange. The default is a generated id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }
}

/// Results that are in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredResults {
    /// The log's revision after it.
    pub revision: Revision,
    /// Where the exchange of the results stands.
    pub seq: Seq,
    /// Whether the exchange id was in the log already: nothing was stored now.
    pub duplicate: bool,
    /// The calls that still wait for a result. If there are none, the model can be called, without input.
    pub open: OpenCalls,
}

impl Engine {
    /// Stores tool results before the model is called: some of the calls are answered, others wait (for a person's
    /// approval, or a job that runs for hours).
    ///
    /// The results become an exchange of their own that [continues](Exchange::continues) the exchange with the calls.
    /// The next [turn](Self::begin) brings the results that are still missing as its input; when all are stored, its
    /// input is empty. Both hold at every door: a request without messages after its head is then legal. Until the
    /// model has answered, a new question supersedes the calls that are still open, as ever. A caller that resends its
    /// list ([`InputMode::Transcript`](crate::InputMode::Transcript)) sends all results of the round.
    ///
    /// A result is stored only while its call is open, and of several processes that answer one call only one succeeds:
    /// the append expects the log that the results were checked against, and they are checked anew if that has changed.
    /// Dropping the future before it is done leaves the results stored or not stored, never in part.
    ///
    /// ```
    /// # use tower_chat_history::{BoxError, ConversationId, Engine, MemoryStore, Message, Reply, ToolResults, TurnInput};
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
    /// Nothing is stored when a message is no result or answers no open call ([`InputError`] in
    /// [`StoreResultsError::Refused`]), when the history cannot be loaded ([`StoreResultsError::Load`],
    /// [`LoadTimeout`](StoreResultsError::LoadTimeout), [`LoadPanicked`](StoreResultsError::LoadPanicked)), when other
    /// calls of this process store results of the conversation for a minute, or when other processes change it all the
    /// time. After [`StoreResultsError::Save`] the outcome may be unknown; repeating it with the same [exchange
    /// id](ToolResults::exchange) is safe.
    pub async fn store_results(&self, results: ToolResults) -> Result<StoredResults, StoreResultsError> {
        let ToolResults { conversation, exchange, results } = results;
        check(&results).map_err(HistoryError::from)?;
        if self.options().measures_time() && Handle::try_current().is_err() {
            return Err(HistoryError::NoRuntime.into());
        }
        let named = exchange.is_some();
        let id = exchange.unwrap_or_else(ExchangeId::generate);
        let _turn = match self.shared.storing_results.enter(&conversation, ONE_AT_A_TIME)? {
            Entered::First(turn) => turn,
            Entered::Waiting(place) => place.wait(ONE_AT_A_TIME, &self.shared.in_flight).await?,
        };
        let _permit = self.wait(&conversation, &Span::current(), &mut || {}).await?;
        for checks in 0..CHECKS {
            // A generated id is in the log only after an append whose answer said something else.
            let known = (named || checks > 0).then_some(&id);
            let window = match self.look_for(&conversation, known).await? {
                Found::Recorded(seq) => {
                    let Found::Window(Some(window)) = self.look_for(&conversation, None).await? else {
                        return Err(SaveError::Store(StoreError::Gone).into());
                    };
                    let open = NewestRound::of(&window.exchanges).open().clone();
                    return Ok(StoredResults { revision: window.revision, seq, duplicate: true, open });
                }
                Found::Window(window) => window,
            };
            let newest = NewestRound::of(window.iter().flat_map(|window| &window.exchanges));
            let (mut open, asked) = (newest.open().clone(), newest.asked());
            let unexpected = results.iter().position(|result| !open.answer(result));
            // Without a conversation no call is open.
            let (None, Some(window)) = (unexpected, window) else {
                let position = unexpected.unwrap_or_default();
                let call_id = results[position].tool_call_id().unwrap_or_default().to_owned();
                return Err(HistoryError::from(InputError::UnexpectedResult { position, call_id }).into());
            };
            let mut exchange = Exchange::new(id.clone(), results.clone());
            exchange.continues = asked;
            let added = Added::of(&exchange);
            let append = Append::new(Expect::Exactly(window.revision), exchange);
            match self.append_results(&conversation, append, named).await {
                Ok(stored) => {
                    let revision = self.retain(&conversation, &stored, added).await;
                    return Ok(StoredResults { revision, seq: stored.seq, duplicate: stored.duplicate, open });
                }
                Err(SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(StoreResultsError::Contended { checks: CHECKS })
    }

    async fn look_for(
        &self,
        conversation: &ConversationId,
        exchange: Option<&ExchangeId>,
    ) -> Result<Found, HistoryError> {
        Ok(match self.load(conversation, self.window_or(exchange), &Span::current()).await? {
            Loaded::AlreadyRecorded(recorded) => Found::Recorded(recorded.seq),
            Loaded::Window(window) => Found::Window(Some(window)),
            Loaded::Absent | Loaded::Unchanged => Found::Window(None),
        })
    }

    async fn append_results(
        &self,
        conversation: &ConversationId,
        append: Append,
        named: bool,
    ) -> Result<Appended, SaveError> {
        let own = Own::of(&append.exchange, named);
        let begun = Instant::now();
        let span = self.recorder().save(&Span::current(), append.exchange.messages.len());
        let mut attempts = 0;
        let mut appended = self.append(conversation, append, &mut attempts).instrument(span.clone()).await;
        if let Ok(stored) = &mut appended
            && stored.duplicate
        {
            stored.duplicate = !self.is_own(conversation, &own, attempts).await;
        }
        let is_duplicate = appended.as_ref().is_ok_and(|stored| stored.duplicate);
        let took = begun.elapsed();
        let saved = Saved { appended: appended.as_ref(), is_duplicate, next: None, attempts, took };
        self.recorder().saved(&span, &saved);
        appended
    }
}

/// What a load found.
enum Found {
    /// The exchange, at that position.
    Recorded(Seq),
    Window(Option<Window>),
}

fn check(results: &[Message]) -> Result<(), InputError> {
    if results.is_empty() {
        return Err(InputError::Empty);
    }
    refuse_foreign(results.iter().enumerate())?;
    let other = results.iter().position(|message| !message.is_tool_result());
    other.map_or(Ok(()), |position| Err(InputError::NotAResult { position }))
}
