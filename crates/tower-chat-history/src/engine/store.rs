//! Calls of the store: bounded in time, repeated where that helps, and seen in spans.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, CompactionVersion, ConversationId, Cut, Exchange, ExchangeId,
    HistoryStore, Incarnation, Load, LoadLimit, Loaded, Message, Page, Seq, StoreError, Timestamp,
};
use tracing::{Instrument as _, Span};

use super::timer;
use crate::{
    error::{HistoryError, SaveError},
    options::HistoryOptions,
    telemetry::Recorder,
};

/// The pause before the first repetition; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The number of times that one load is widened at most. A log of nothing but such openings must not be loaded whole.
const MAX_WIDENED_LOADS: u32 = 4;

fn twice(limit: LoadLimit) -> LoadLimit {
    LoadLimit::new(limit.messages().saturating_mul(2), limit.bytes().saturating_mul(2)).unwrap_or(limit)
}

/// A store whose calls an engine's [options](HistoryOptions) bound. A clone shares it.
#[derive(Clone)]
pub(super) struct BoundedStore {
    store: Arc<dyn HistoryStore>,
    options: Arc<HistoryOptions>,
    recorder: Recorder,
}

impl BoundedStore {
    pub(super) fn new(store: Arc<dyn HistoryStore>, options: Arc<HistoryOptions>, recorder: Recorder) -> Self {
        Self { store, options, recorder }
    }

    pub(super) const fn get(&self) -> &Arc<dyn HistoryStore> {
        &self.store
    }

    pub(super) fn options(&self) -> &HistoryOptions {
        &self.options
    }

    pub(super) const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Loads the window of the profile within the load limit, or that exchange if it is recorded, for a turn that has
    /// that span.
    pub(super) async fn load(
        &self,
        conversation: &ConversationId,
        exchange: Option<&ExchangeId>,
        turn: &Span,
    ) -> Result<Loaded, StoreFailure> {
        let step = self.recorder.load(turn);
        let loaded = self.load_whole_rounds(conversation, exchange).instrument(step.span().clone()).await;
        step.ended(loaded.as_ref().map_err(StoreFailure::kind));
        loaded
    }

    /// Loads a window. If the load limit lets it begin with messages that may belong to calls before it, it is loaded
    /// again with twice the limit. Only an edited log has such an opening. Otherwise the open calls would depend on the
    /// limit.
    async fn load_whole_rounds(
        &self,
        conversation: &ConversationId,
        exchange: Option<&ExchangeId>,
    ) -> Result<Loaded, StoreFailure> {
        let mut load = self.window_or(exchange);
        let mut widened = 0;
        loop {
            let asked = load.clone();
            let mut loaded = self.bounded(async { self.store.load(conversation, asked).await }).await?;
            if let Loaded::Window(window) = &mut loaded {
                let begins = window.exchanges.first();
                let depends = window.truncated && begins.is_some_and(|first| !first.exchange.closes_open_calls());
                if depends && widened < MAX_WIDENED_LOADS {
                    widened += 1;
                    load.limit = twice(load.limit);
                    continue;
                }
                // The next load need not find that out again: the window's start moves, as after any load that was cut.
                window.truncated |= widened > 0;
            }
            return Ok(loaded);
        }
    }

    fn window_or(&self, exchange: Option<&ExchangeId>) -> Load {
        let mut load = Load::new().profile(self.options.context.profile.clone()).limit(self.options.context.load_limit);
        load.exchange = exchange.cloned();
        load
    }

    /// Appends, and repeats attempts that may succeed later: the exchange id makes a repetition harmless, also when the
    /// outcome is unknown.
    pub(super) async fn append(
        &self,
        conversation: &ConversationId,
        append: Append,
        attempts: &mut u32,
    ) -> Result<Appended, SaveError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..self.options.save_attempts {
            *attempts += 1;
            match self.append_once(conversation, append.clone()).await {
                Err(error) if is_transient(&error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %error, "storing an exchange failed; it is tried again");
                    timer::sleep(pause).await;
                    pause *= 2;
                }
                decided => return decided,
            }
        }
        *attempts += 1;
        self.append_once(conversation, append).await
    }

    async fn append_once(&self, conversation: &ConversationId, append: Append) -> Result<Appended, SaveError> {
        Ok(self.bounded(async { self.store.append(conversation, append).await }).await?)
    }

    /// Returns whether an exchange that the store found in the log already is this one: an attempt whose answer was lost
    /// had stored it.
    pub(super) async fn is_own(&self, conversation: &ConversationId, own: &OwnExchange, attempts: u32) -> bool {
        // A generated id is this exchange's alone. One attempt finds no other one of its own.
        if !own.has_caller_id || attempts < 2 {
            return !own.has_caller_id;
        }
        let asked = self.window_or(Some(&own.id));
        match self.bounded(async { self.store.load(conversation, asked).await }).await {
            Ok(Loaded::AlreadyRecorded(recorded)) => {
                recorded.exchange.at == own.at && recorded.exchange.messages == own.messages
            }
            // Of the two, this is the rarer case: another call under the same id, while this one's answer was lost.
            _ => true,
        }
    }

    /// Reads a page, without a limit of time: whatever needs it has one of its own.
    pub(super) async fn read(
        &self,
        conversation: &ConversationId,
        from: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        Ok(without_panic(async { self.store.read(conversation, from, limit).await }).await?)
    }

    /// Reads a page within the store timeout.
    pub(super) async fn read_bounded(
        &self,
        conversation: &ConversationId,
        from: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        Ok(self.bounded(async { self.store.read(conversation, from, limit).await }).await?)
    }

    /// Stores a compaction of the profile, once.
    pub(super) async fn compact(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        replaces: CompactionVersion,
        cut: Cut,
    ) -> Result<CompactOutcome, StoreError> {
        let compact = Compact { profile: self.options.context.profile.clone(), replaces, cut };
        Ok(self.bounded(async { self.store.compact(conversation, incarnation, compact).await }).await?)
    }

    /// Returns the result of a call of the store, if it comes within the [store
    /// timeout](crate::HistoryOptions::store_timeout). The call is made within the future, because a store may panic
    /// before it returns one.
    pub(super) async fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreFailure> {
        timer::timeout(self.options.store_timeout, without_panic(call))
            .await
            .unwrap_or_else(|after| Err(StoreFailure::Timeout(after)))
    }
}

/// Returns the result of a call of the store, without a limit of time.
async fn without_panic<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreFailure> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(result) => result.map_err(StoreFailure::Store),
        Err(_) => Err(StoreFailure::Panicked),
    }
}

fn is_transient(error: &SaveError) -> bool {
    match error {
        SaveError::Store(error) => StoreError::is_retryable(error),
        // A store may panic where its runtime is gone, and not in the next one.
        SaveError::Timeout(_) | SaveError::Panicked => true,
    }
}

/// The parts of an exchange that differ from another one's under the same id.
pub(super) struct OwnExchange {
    id: ExchangeId,
    /// True if the caller chose the id.
    has_caller_id: bool,
    at: Timestamp,
    messages: Vec<Message>,
}

impl OwnExchange {
    pub(super) fn of(exchange: &Exchange, has_caller_id: bool) -> Self {
        let Exchange { id, at, messages, .. } = exchange;
        Self { id: id.clone(), has_caller_id, at: *at, messages: messages.clone() }
    }
}

/// A failed call of the store.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreFailure {
    #[error(transparent)]
    Store(StoreError),
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the store panicked")]
    Panicked,
}

impl StoreFailure {
    /// A short constant name, as [`SaveError::kind`] has it.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
            Self::Panicked => "panicked",
        }
    }
}

impl From<StoreFailure> for HistoryError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Load(error),
            StoreFailure::Timeout(after) => Self::LoadTimeout(after),
            StoreFailure::Panicked => Self::LoadPanicked,
        }
    }
}

impl From<StoreFailure> for SaveError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Store(error),
            StoreFailure::Timeout(after) => Self::Timeout(after),
            StoreFailure::Panicked => Self::Panicked,
        }
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => error,
            StoreFailure::Timeout(_) => Self::unavailable(failure),
            StoreFailure::Panicked => Self::backend(failure),
        }
    }
}
