//! Storing tool results without a model call.
//!
//! # Decisions
//!
//! - **Results are stored at the revision at which they were checked.** If two results for one call arrive at the same
//!   time, the store refuses one of them, without a lock.

use std::time::Duration;

use tower_chat_history_core::{
    Append, Appended, ChatCompletions, ConversationId, Dialect, Exchange, ExchangeId, Expect, Message, Metadata,
    NewestRound, Recorded, Revision, Seq, StoreError,
};
use tracing::{Instrument as _, Span};

use super::{
    parts::{Parts, runtime},
    queue::Place,
    retention::ExchangeFacts,
    store::{BoundedStore, LoadResult},
    translate::{check_turn, read_each},
};
use crate::{
    context::{
        plan::{InputError, refuse_foreign},
        view::OpenCalls,
    },
    error::{DialectPlace, HistoryError, SaveError, StoreResultsError, check_dialect},
    limits::{Amounts, LimitExceeded},
    policy::QueueLimits,
};

/// The largest number of attempts to check and append the results. They are checked again if the conversation changes
/// before the append.
const MAX_CHECKS: u32 = 16;

/// The limits of the queue for calls of this process that store results in one conversation. Without this queue, each
/// append would make all other calls check their results again.
const RESULTS_QUEUE: QueueLimits = QueueLimits::new(usize::MAX, Duration::from_secs(60));

/// Tool results to be stored without a model call, for [`Engine::store_results`](crate::Engine::store_results).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResults {
    /// The conversation.
    pub conversation: ConversationId,
    /// The id of the exchange. Only one exchange is stored under an id, so a call with an id can be repeated safely.
    /// The default is a generated id.
    pub exchange: Option<ExchangeId>,
    /// Your own data about the exchange, which is stored with it and never sent. The default is `None`.
    pub metadata: Option<Metadata>,
    /// The results: tool messages that answer open calls, at least one.
    pub results: Vec<Message>,
}

impl ToolResults {
    /// Creates the value from results for open calls of this conversation.
    pub fn new(conversation: ConversationId, results: impl IntoIterator<Item = Message>) -> Self {
        Self { conversation, exchange: None, metadata: None, results: results.into_iter().collect() }
    }

    /// Sets the id of the exchange. The default is a generated id.
    #[must_use]
    pub fn exchange(mut self, id: ExchangeId) -> Self {
        self.exchange = Some(id);
        self
    }

    /// Sets your own data about the exchange, such as who approved the calls. See
    /// [`CallOptions::metadata`](crate::CallOptions::metadata).
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// Tool results that are in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredResults {
    /// The log's revision after the append.
    pub revision: Revision,
    /// The position of the exchange with the results.
    pub seq: Seq,
    /// True if the log already contained an exchange with this id. This call then stored nothing.
    pub duplicate: bool,
    /// The calls that still have no result. If there are none, the model can be called without input.
    pub open: OpenCalls,
}

/// Stores results. See [`Engine::store_results`](super::Engine::store_results).
pub(super) async fn store(parts: &Parts, results: ToolResults) -> Result<StoredResults, StoreResultsError> {
    let exceeded = check_sizes(parts, &results).err();
    let ToolResults { conversation, exchange, metadata, results } = results;
    let dialect = results.iter().find_map(Message::dialect).unwrap_or(&ChatCompletions);
    check_dialect(dialect, &results, DialectPlace::Input).map_err(HistoryError::from)?;
    check(&results).map_err(HistoryError::from)?;
    runtime()?;
    let within = parts.recorder().current_span();

    let named = exchange.is_some();
    if let (false, Some(exceeded)) = (named, exceeded) {
        return Err(HistoryError::from(exceeded).into());
    }
    let id = exchange.unwrap_or_else(ExchangeId::generate);

    let _results_permit = match parts.storing_results.enter(&conversation, RESULTS_QUEUE)? {
        Place::First(permit) => permit,
        Place::Behind(place) => place.wait(RESULTS_QUEUE, &parts.in_flight).await?,
    };
    let _permit = parts.wait_for_earlier(&conversation, &within, &mut || {}).await?;

    let store = &parts.store;
    for checks in 0..MAX_CHECKS {
        // A generated id can only be in the log if an earlier append of this loop stored the exchange although it
        // returned an error.
        let id_to_find = (named || checks > 0).then_some(&id);
        let window = match load(store, &conversation, dialect, id_to_find, &within).await? {
            LoadResult::Recorded(Recorded { seq, .. }) => {
                let LoadResult::Window(window) = load(store, &conversation, dialect, None, &within).await? else {
                    return Err(SaveError::Store(StoreError::Gone).into());
                };
                let open = NewestRound::of(&window.exchanges).open().clone();
                return Ok(StoredResults { revision: window.revision, seq, duplicate: true, open });
            }
            LoadResult::Window(window) => Some(window),
            LoadResult::Absent(_) => None,
        };
        if let Some(exceeded) = exceeded {
            return Err(HistoryError::from(exceeded).into());
        }
        if let Some(window) = &window {
            read_each(parts.options(), dialect, &conversation, &window.exchanges)?;
            check_turn(dialect, &window.exchanges, &results).map_err(HistoryError::from)?;
        }

        let newest = NewestRound::of(window.iter().flat_map(|window| &window.exchanges));
        let asked = newest.asked();
        let mut open = newest.open().clone();
        let unexpected =
            results.iter().position(|result| result.answers().is_empty() || open.answer_all(result).is_err());
        // If there is no conversation, no call is open.
        let (None, Some(window)) = (unexpected, window) else {
            let position = unexpected.unwrap_or_default();
            let call_id = results[position].tool_call_id().unwrap_or_default().to_owned();
            return Err(HistoryError::from(InputError::UnexpectedResult { position, call_id }).into());
        };

        let mut exchange = Exchange::new(id.clone(), results.clone());
        exchange.continues = asked;
        exchange.metadata.clone_from(&metadata);
        let facts = ExchangeFacts::of(&exchange);
        let append = Append::new(Expect::Exactly(window.revision), exchange);
        match append_results(store, &conversation, &append, window.revision.next(), named, &within).await {
            Ok(stored) => {
                let revision = parts.retain(&conversation, &stored, facts).await;
                return Ok(StoredResults { revision, seq: stored.seq, duplicate: stored.duplicate, open });
            }
            Err(SaveError::Store(StoreError::Conflict { .. } | StoreError::Gone)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreResultsError::Contended { checks: MAX_CHECKS })
}

/// Checks the size of the results. No other limit applies to them.
fn check_sizes(parts: &Parts, results: &ToolResults) -> Result<(), LimitExceeded> {
    let limits = parts.options().limits.of(&results.conversation);
    limits.map_or(Ok(()), |limits| limits.check(&Amounts::of_input(&results.results)))
}

/// Loads the window, or finds the exchange with this id.
async fn load(
    store: &BoundedStore,
    conversation: &ConversationId,
    dialect: &'static dyn Dialect,
    exchange: Option<&ExchangeId>,
    within: &Span,
) -> Result<LoadResult, HistoryError> {
    Ok(store.load(conversation, dialect, exchange, within).await?)
}

async fn append_results(
    store: &BoundedStore,
    conversation: &ConversationId,
    append: &Append,
    next: Seq,
    named: bool,
    within: &Span,
) -> Result<Appended, SaveError> {
    let step = store.recorder().save(within, append.exchange.messages.len());
    let mut attempts = 0;
    let storing = store.append(conversation, append, Some(next), &mut attempts);
    let mut appended = storing.instrument(step.span().clone()).await;
    if let Ok(stored) = &mut appended
        && stored.duplicate
    {
        match store.is_own(conversation, &append.exchange, named, attempts).await {
            Ok(is_own) => stored.duplicate = !is_own,
            Err(error) => appended = Err(error),
        }
    }
    let is_duplicate = appended.as_ref().is_ok_and(|stored| stored.duplicate);
    step.ended(appended.as_ref(), is_duplicate, None, attempts);
    appended
}

fn check(results: &[Message]) -> Result<(), InputError> {
    if results.is_empty() {
        return Err(InputError::Empty);
    }
    refuse_foreign(results.iter().enumerate())?;
    let other = results.iter().position(|message| !message.is_tool_result());
    other.map_or(Ok(()), |position| Err(InputError::NotAResult { position }))
}
