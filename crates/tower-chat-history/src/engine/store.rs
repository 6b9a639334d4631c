//! Store calls with timeouts, retries and spans.

use std::{iter, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::sleep;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, CompactionVersion, ConversationId, Cut, Cuts, Dialect, DialectName, Digest,
    Epoch, Exchange, ExchangeId, Expect, HistoryStore, Incarnation, Load, LoadLimit, Loaded, Page, Profile, Recorded,
    Revision, Seq, StoreError, backend::RecordError,
};
use tracing::{Instrument as _, Span};

use crate::{
    context::plan::LoadedWindow,
    error::{HistoryError, SaveError},
    options::HistoryOptions,
    telemetry::Recorder,
    timeout::timeout,
};

/// The pause before the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The largest number of times that one load is repeated with twice the limit. Without it, an edited log in which no
/// exchange closes the open calls would be loaded completely.
const MAX_WIDENED_LOADS: u32 = 4;

fn double(limit: LoadLimit) -> LoadLimit {
    let doubled = LoadLimit::new(limit.messages().saturating_mul(2), limit.bytes().saturating_mul(2)).unwrap_or(limit);
    doubled.with_media_bytes(limit.media_bytes().saturating_mul(2))
}

/// The result of a load.
#[allow(clippy::large_enum_variant)] // A value lives only as long as a call.
pub(super) enum LoadResult {
    /// There is no such conversation at this epoch.
    Absent(Epoch),
    /// The exchange that was asked for.
    Recorded(Recorded),
    /// The profile's window, with its compaction.
    Window(LoadedWindow),
}

impl LoadResult {
    /// Returns the exchanges that were loaded, and the window if it was loaded.
    fn parts(&self) -> (&[Recorded], Option<&LoadedWindow>) {
        match self {
            Self::Absent(_) => (&[], None),
            Self::Recorded(recorded) => (std::slice::from_ref(recorded), None),
            Self::Window(window) => (&window.exchanges, Some(window)),
        }
    }
}

/// The compaction of the profile that is stored.
pub(super) struct StoredCut {
    version: CompactionVersion,
    pub(super) cut: Cut,
}

impl StoredCut {
    pub(super) fn of(window: &LoadedWindow) -> Option<Self> {
        Some(Self { version: window.version, cut: window.cut()?.clone() })
    }
}

/// The outcome of storing a cut in place of another one.
pub(super) enum Replacement {
    Stored,
    /// Another compaction than the one to replace is stored, or none.
    Kept(Option<StoredCut>),
}

/// A failed store call.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreFailure {
    #[error(transparent)]
    Store(StoreError),
    #[error("the store did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
}

impl StoreFailure {
    /// Returns a short constant name, like [`SaveError::kind`].
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
        }
    }
}

impl From<StoreFailure> for HistoryError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Load(error),
            StoreFailure::Timeout(after) => Self::LoadTimeout(after),
        }
    }
}

impl From<StoreFailure> for SaveError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => Self::Store(error),
            StoreFailure::Timeout(after) => Self::Timeout(after),
        }
    }
}

impl From<StoreFailure> for StoreError {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::Store(error) => error,
            StoreFailure::Timeout(_) => Self::unavailable(failure),
        }
    }
}

/// A store whose calls obey the timeouts, limits and retries of an engine's [options](HistoryOptions). A clone shares
/// the store.
#[derive(Clone)]
pub(super) struct BoundedStore {
    store: Arc<dyn HistoryStore>,
    options: Arc<HistoryOptions>,
    recorder: Recorder,
    /// The profile whose compactions are loaded and stored.
    profile: Profile,
}

impl BoundedStore {
    pub(super) fn new(store: Arc<dyn HistoryStore>, options: Arc<HistoryOptions>, recorder: Recorder) -> Self {
        let profile = options.context.profile.clone();
        Self { store, options, recorder, profile }
    }

    /// Returns the store with the profile for a reader whose context window has this size. It's one of its own, so that
    /// a call of a small model doesn't shrink the window of a large one.
    pub(super) fn for_window(&self, tokens: u32) -> Self {
        let base = &self.options.context.profile;
        let name = format!("{base}~{tokens}");
        let profile = Profile::new(&name).or_else(|_| Profile::new(format!("~{}", Digest::of(name.as_bytes()))));
        Self { profile: profile.unwrap_or_else(|_| base.clone()), ..self.clone() }
    }

    pub(super) const fn profile(&self) -> &Profile {
        &self.profile
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

    /// Loads the profile's window within the load limit, and reads it in this dialect. If `exchange` is given and
    /// already in the log, it loads that exchange instead. The load's span is a child of `turn`.
    ///
    /// Exchanges that are in another dialect, or cannot be read, are not read. See
    /// [`read_each`](super::translate::read_each).
    pub(super) async fn load(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        exchange: Option<&ExchangeId>,
        turn: &Span,
    ) -> Result<LoadResult, StoreFailure> {
        let step = self.recorder.load(turn);
        let loaded = self.load_whole_rounds(conversation, dialect, exchange).instrument(step.span().clone()).await;
        step.ended(loaded.as_ref().map(LoadResult::parts).map_err(StoreFailure::kind));
        loaded
    }

    /// Loads a window that does not begin inside a round. If the window begins with an exchange that may answer
    /// earlier calls, the load is repeated with twice the limit. Otherwise, the limit would determine which calls are
    /// open. Only windows of edited logs can begin with such an exchange.
    async fn load_whole_rounds(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        exchange: Option<&ExchangeId>,
    ) -> Result<LoadResult, StoreFailure> {
        let mut load = self.window_or(exchange);
        let mut widened = 0;
        loop {
            let asked = load.clone();
            let mut window = match self.bounded(self.store.load(conversation, asked)).await? {
                Loaded::Window(window) => window,
                Loaded::AlreadyRecorded(recorded) => {
                    read_own(std::slice::from_ref(&recorded), dialect)?;
                    return Ok(LoadResult::Recorded(recorded));
                }
                Loaded::Absent(epoch) => return Ok(LoadResult::Absent(epoch)),
                // This load has no `known` state, so a correct store returns neither of these. They are treated as an
                // absent conversation.
                Loaded::Unchanged | Loaded::Added(_) => return Ok(LoadResult::Absent(Epoch::FIRST)),
            };
            read_own(&window.exchanges, dialect)?;

            let begins = window.exchanges.first();
            let cuts_round = window.truncated && begins.is_some_and(|first| !first.exchange.closes_open_calls());
            if cuts_round && widened < MAX_WIDENED_LOADS {
                widened += 1;
                load.limit = double(load.limit);
                continue;
            }
            // The window is marked as truncated, so that a compaction moves its start. The next load then need not be
            // repeated.
            window.truncated |= widened > 0;

            let window = LoadedWindow::read(window).map_err(|error| self.unreadable(conversation, error));
            return Ok(LoadResult::Window(window.map_err(StoreFailure::Store)?));
        }
    }

    /// Returns the error for a compaction that cannot be read.
    fn unreadable(&self, conversation: &ConversationId, error: RecordError) -> StoreError {
        let profile = self.profile.clone();
        StoreError::CorruptCompaction { conversation: conversation.clone(), profile, source: error.into() }
    }

    /// Returns the exchange with this id if it is in the log, with as little else of the log as possible.
    pub(super) async fn recorded(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        exchange: &ExchangeId,
    ) -> Result<Option<Recorded>, StoreFailure> {
        let mut load = self.window_or(Some(exchange));
        load.limit = LoadLimit::new(1, 1).unwrap_or(load.limit);
        match self.bounded(self.store.load(conversation, load)).await? {
            Loaded::AlreadyRecorded(recorded) => {
                read_own(std::slice::from_ref(&recorded), dialect)?;
                Ok(Some(recorded))
            }
            Loaded::Window(_) | Loaded::Absent(_) | Loaded::Unchanged | Loaded::Added(_) => Ok(None),
        }
    }

    /// Loads the cuts of the profile, with as little of the log as possible.
    pub(super) async fn cuts(&self, conversation: &ConversationId) -> Result<Option<Cuts>, StoreFailure> {
        let mut load = self.window_or(None);
        load.limit = LoadLimit::new(1, 1).unwrap_or(load.limit);
        let Loaded::Window(window) = self.bounded(self.store.load(conversation, load)).await? else { return Ok(None) };
        let cuts = window.compaction.as_ref().map(Cuts::read).transpose();
        cuts.map_err(|error| StoreFailure::Store(self.unreadable(conversation, error)))
    }

    fn window_or(&self, exchange: Option<&ExchangeId>) -> Load {
        let mut load = Load::new().profile(self.profile.clone()).limit(self.options.context.load_limit);
        load.exchange = exchange.cloned();
        load
    }

    /// Appends an exchange, and retries after transient errors. Because of the exchange id, a retry is safe even if the
    /// outcome of the previous attempt is unknown. `next` is the position of the log's next exchange at the time of the
    /// load, if the log could be loaded.
    pub(super) async fn append(
        &self,
        conversation: &ConversationId,
        append: &Append,
        next: Option<Seq>,
        attempts: &mut u32,
    ) -> Result<Appended, SaveError> {
        let mut pauses = self.pauses();
        loop {
            *attempts += 1;
            let error = match self.append_once(conversation, append, next, *attempts).await {
                Err(error) if is_transient(&error) => error,
                result => return result,
            };
            let Some(pause) = pauses.next() else { return Err(error) };
            tracing::warn!(error.type = error.kind(), error = %error, "storing an exchange failed; retrying");
            sleep(pause).await;
        }
    }

    async fn append_once(
        &self,
        conversation: &ConversationId,
        append: &Append,
        next: Option<Seq>,
        attempts: u32,
    ) -> Result<Appended, SaveError> {
        if attempts > 1
            && let Some(next) = next
            && let Some(stored) = Box::pin(self.stored_earlier(conversation, append, next)).await?
        {
            return Ok(stored);
        }
        Ok(self.bounded(self.store.append(conversation, append.clone())).await?)
    }

    /// Returns the exchange that an earlier attempt stored, or `None` if the append can be repeated.
    ///
    /// The store refuses a second exchange with an id only while the first one is in the log. If the log was pruned
    /// beyond the position that the exchange could have got, a repetition could store it twice.
    async fn stored_earlier(
        &self,
        conversation: &ConversationId,
        append: &Append,
        next: Seq,
    ) -> Result<Option<Appended>, SaveError> {
        let Some(revision) = self.revision(conversation).await? else { return Ok(None) };
        let is_expected = match append.expect {
            Expect::Exactly(expected) => expected.incarnation() == revision.incarnation(),
            Expect::AnyIn(incarnation) => incarnation == revision.incarnation(),
            Expect::Absent | Expect::AnyOrCreate => true,
        };
        if !is_expected || revision.first() <= next {
            return Ok(None);
        }

        let Loaded::AlreadyRecorded(recorded) = self.find(conversation, &append.exchange.id).await? else {
            return Err(SaveError::UnknownOutcome);
        };
        let revision = self.revision(conversation).await?.ok_or(SaveError::Store(StoreError::Gone))?;
        Ok(Some(Appended::duplicate(revision, recorded.seq)))
    }

    async fn revision(&self, conversation: &ConversationId) -> Result<Option<Revision>, StoreFailure> {
        let page = self.bounded(self.store.read(conversation, Seq::FIRST, 0)).await?;
        Ok(page.revision)
    }

    /// Loads the exchange with this id if it is in the log.
    async fn find(&self, conversation: &ConversationId, exchange: &ExchangeId) -> Result<Loaded, StoreFailure> {
        let asked = self.window_or(Some(exchange));
        self.bounded(self.store.load(conversation, asked)).await
    }

    /// Returns `true` if the duplicate that the store found in the log is this exchange itself, stored by an attempt
    /// whose answer was lost. `has_caller_id` is true if the caller chose the exchange's id. The load of the duplicate
    /// is retried after transient errors. If it fails, the outcome of the save is unknown.
    pub(super) async fn is_own(
        &self,
        conversation: &ConversationId,
        own: &Exchange,
        has_caller_id: bool,
        attempts: u32,
    ) -> Result<bool, SaveError> {
        // No other exchange has a generated id. A single attempt cannot find an exchange of an earlier attempt.
        if !has_caller_id || attempts < 2 {
            return Ok(!has_caller_id);
        }
        let mut pauses = self.pauses();
        loop {
            match self.find(conversation, &own.id).await.map_err(SaveError::from) {
                Ok(Loaded::AlreadyRecorded(recorded)) => {
                    return Ok(recorded.exchange.at == own.at && recorded.exchange.messages == own.messages);
                }
                // It was deleted or pruned in between.
                Ok(Loaded::Absent(_) | Loaded::Unchanged | Loaded::Added(_) | Loaded::Window(_)) => break,
                Err(error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %error, "a stored exchange could not be loaded");
                    let Some(pause) = pauses.next().filter(|_| is_transient(&error)) else { break };
                    sleep(pause).await;
                }
            }
        }
        Err(SaveError::UnknownOutcome)
    }

    /// Reads a page without a time limit. Callers have their own.
    pub(super) async fn read(
        &self,
        conversation: &ConversationId,
        from: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.store.read(conversation, from, limit).await
    }

    /// Reads a page within the store timeout.
    pub(super) async fn read_bounded(
        &self,
        conversation: &ConversationId,
        from: Seq,
        limit: usize,
    ) -> Result<Page, StoreError> {
        Ok(self.bounded(self.store.read(conversation, from, limit)).await?)
    }

    /// Stores a cut in place of this one, in one attempt.
    pub(super) async fn compact(
        &self,
        conversation: &ConversationId,
        incarnation: Incarnation,
        replaced: Option<&StoredCut>,
        cut: Cut,
    ) -> Result<Replacement, StoreError> {
        let replaces = replaced.map_or(CompactionVersion::NONE, |replaced| replaced.version);
        let cuts = Cuts::new(cut).replacing(replaced.map(|replaced| replaced.cut.clone()));
        let compact = cuts.compact(self.profile.clone(), replaces).map_err(StoreError::backend)?;

        let stored = match self.bounded(self.store.compact(conversation, incarnation, compact)).await? {
            CompactOutcome::Stored(_) => return Ok(Replacement::Stored),
            CompactOutcome::Kept(None) => return Ok(Replacement::Kept(None)),
            CompactOutcome::Kept(Some(stored)) => stored,
        };
        let cuts = Cuts::read(&stored).map_err(|error| self.unreadable(conversation, error))?;
        Ok(Replacement::Kept(Some(StoredCut { version: stored.version, cut: cuts.cut })))
    }

    /// Returns the pauses between the attempts of a save: one fewer than the attempts, and each twice as long as the
    /// one before.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Duration> {
        let doubled = iter::successors(Some(FIRST_PAUSE), |pause| pause.checked_mul(2));
        doubled.zip(1..self.options.save_attempts).map(|(pause, _)| pause)
    }

    /// Returns the result of a store call, or an error after the [store
    /// timeout](crate::HistoryOptions::store_timeout).
    pub(super) fn bounded<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> impl Future<Output = Result<T, StoreFailure>> {
        timeout(self.options.store_timeout, call).map(|result| match result {
            Ok(result) => result.map_err(StoreFailure::Store),
            Err(after) => Err(StoreFailure::Timeout(after)),
        })
    }
}

/// Checks that exchanges are not sealed, and reads those of a dialect of the application.
fn read_own(exchanges: &[Recorded], dialect: &'static dyn Dialect) -> Result<(), StoreFailure> {
    exchanges.iter().try_for_each(Recorded::check_unsealed).map_err(StoreFailure::Store)?;
    if DialectName::of(dialect).is_built_in() {
        return Ok(());
    }
    for Recorded { exchange, .. } in exchanges {
        if exchange.dialect.is(dialect.name()) {
            // The caller's check returns the error.
            let _ = exchange.read_in(dialect);
        }
    }
    Ok(())
}

fn is_transient(error: &SaveError) -> bool {
    match error {
        SaveError::Store(error) => StoreError::is_retryable(error),
        SaveError::Timeout(_) => true,
        SaveError::Panicked | SaveError::UnknownOutcome | SaveError::OtherDialect(_) => false,
    }
}
