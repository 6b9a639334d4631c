//! Storing tool results as they come, without a call.

use std::time::Duration;

use tokio::runtime::Handle;
use tower_chat_history_context::{
    plan::{InputError, refuse_foreign},
    view::OpenCalls,
};
use tower_chat_history_core::{
    Append, Appended, ConversationId, Exchange, ExchangeId, Expect, Loaded, Message, NewestRound, Revision, Seq,
    StoreError, Window,
};
use tracing::{Instrument as _, Span};

use super::{
    Engine,
    queue::Entered,
    retention::Added,
    store::{BoundedStore, OwnExchange},
    wait::Ahead,
};
use crate::{
    error::{HistoryError, SaveError, StoreResultsError},
    policy::QueueLimits,
};

/// How often results are checked anew because another process changed the conversation between check and append.
const MAX_CHECKS: u32 = 16;

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
    /// True if the exchange id was in the log already: nothing was stored now.
    pub duplicate: bool,
    /// The calls that still wait for a result. If there are none, the model can be called, without input.
    pub open: OpenCalls,
}

/// Stores results. See [`Engine::store_results`].
pub(super) async fn store(engine: &Engine, results: ToolResults) -> Result<StoredResults, StoreResultsError> {
    let ToolResults { conversation, exchange, results } = results;
    check(&results).map_err(HistoryError::from)?;
    if engine.options().measures_time() && Handle::try_current().is_err() {
        return Err(HistoryError::NoRuntime.into());
    }
    let within = engine.recorder().current_span();
    let named = exchange.is_some();
    let id = exchange.unwrap_or_else(ExchangeId::generate);
    let _turn = match engine.shared.storing_results.enter(&conversation, ONE_AT_A_TIME)? {
        Entered::First(turn) => turn,
        Entered::Waiting(place) => place.wait(ONE_AT_A_TIME, &engine.shared.in_flight).await?,
    };
    let _permit = Ahead::Unknown.wait(engine, &conversation, &within).await?;
    let store = engine.bounded_store();
    for checks in 0..MAX_CHECKS {
        // A generated id is in the log only after an append whose answer said something else.
        let known = (named || checks > 0).then_some(&id);
        let window = match look_for(store, &conversation, known, &within).await? {
            Found::Recorded(seq) => {
                let Found::Window(Some(window)) = look_for(store, &conversation, None, &within).await? else {
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
        match append_results(store, &conversation, append, named, &within).await {
            Ok(stored) => {
                let revision = engine.retain(&conversation, &stored, added).await;
                return Ok(StoredResults { revision, seq: stored.seq, duplicate: stored.duplicate, open });
            }
            Err(SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreResultsError::Contended { checks: MAX_CHECKS })
}

async fn look_for(
    store: &BoundedStore,
    conversation: &ConversationId,
    exchange: Option<&ExchangeId>,
    within: &Span,
) -> Result<Found, HistoryError> {
    Ok(match store.load(conversation, exchange, within).await? {
        Loaded::AlreadyRecorded(recorded) => Found::Recorded(recorded.seq),
        Loaded::Window(window) => Found::Window(Some(window)),
        Loaded::Absent | Loaded::Unchanged => Found::Window(None),
    })
}

async fn append_results(
    store: &BoundedStore,
    conversation: &ConversationId,
    append: Append,
    named: bool,
    within: &Span,
) -> Result<Appended, SaveError> {
    let own = OwnExchange::of(&append.exchange, named);
    let step = store.recorder().save(within, append.exchange.messages.len());
    let mut attempts = 0;
    let mut appended = store.append(conversation, append, &mut attempts).instrument(step.span().clone()).await;
    if let Ok(stored) = &mut appended
        && stored.duplicate
    {
        stored.duplicate = !store.is_own(conversation, &own, attempts).await;
    }
    let is_duplicate = appended.as_ref().is_ok_and(|stored| stored.duplicate);
    step.ended(appended.as_ref(), is_duplicate, None, attempts);
    appended
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
