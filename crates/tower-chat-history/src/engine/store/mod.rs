//! Store calls with timeouts, retries and spans.

mod failure;
mod stored;

use std::{sync::Arc, time::Duration};

use crate::context::plan::LoadedWindow;
use futures_util::FutureExt as _;
use tokio::time::sleep;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, CompactionVersion, ConversationId, Cut, Cuts, Dialect, DialectName, Epoch,
    ExchangeId, HistoryStore, Incarnation, Load, LoadLimit, Loaded, Page, Recorded, Seq, StoreError,
    backend::RecordError,
};
use tracing::{Instrument as _, Span};

pub(super) use self::failure::StoreFailure;
use crate::{error::SaveError, options::HistoryOptions, telemetry::Recorder, timeout::timeout};

/// The pause before the first retry. Each further pause is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The largest number of times that one load is repeated with twice the limit. Without it, an edited log in which no
/// exchange closes the open calls would be loaded completely.
const MAX_WIDENED_LOADS: u32 = 4;

fn double(limit: LoadLimit) -> LoadLimit {
    LoadLimit::new(limit.messages().saturating_mul(2), limit.bytes().saturating_mul(2)).unwrap_or(limit)
}

/// The result of a load.
#[allow(clippy::large_enum_variant)] // A value lives only as long as a call.
pub(super) enum Found {
    /// There is no such conversation at this epoch.
    Absent(Epoch),
    /// The exchange that was asked for.
    Recorded(Recorded),
    /// The profile's window, with its compaction.
    Window(LoadedWindow),
}

impl Found {
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

/// The outcome of storing a cut.
pub(super) enum Compacted {
    Stored,
    /// Another compaction than the one to replace is stored, or none.
    Kept(Option<StoredCut>),
}

/// A store whose calls obey the timeouts, limits and retries of an engine's [options](HistoryOptions). A clone shares
/// the store.
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

    /// Loads the profile's window within the load limit, and reads it in this dialect. If `exchange` is given and
    /// already in the log, it loads that exchange instead. The load's span is a child of `turn`.
    ///
    /// Exchanges that are in another dialect, or cannot be read, are not read. See
    /// [`read_in`](super::turn::read_in).
    pub(super) async fn load(
        &self,
        conversation: &ConversationId,
        dialect: &'static dyn Dialect,
        exchange: Option<&ExchangeId>,
        turn: &Span,
    ) -> Result<Found, StoreFailure> {
        let step = self.recorder.load(turn);
        let loaded = self.load_whole_rounds(conversation, dialect, exchange).instrument(step.span().clone()).await;
        step.ended(loaded.as_ref().map(Found::parts).map_err(StoreFailure::kind));
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
    ) -> Result<Found, StoreFailure> {
        let mut load = self.window_or(exchange);
        let mut widened = 0;
        loop {
            let asked = load.clone();
            let mut window = match self.bounded(self.store.load(conversation, asked)).await? {
                Loaded::Window(window) => window,
                Loaded::AlreadyRecorded(recorded) => {
                    read_own(std::slice::from_ref(&recorded), dialect)?;
                    return Ok(Found::Recorded(recorded));
                }
                Loaded::Absent(epoch) => return Ok(Found::Absent(epoch)),
                // This load has no `known` state, so a correct store returns neither of these. They are treated as an
                // absent conversation.
                Loaded::Unchanged | Loaded::Added(_) => return Ok(Found::Absent(Epoch::FIRST)),
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
            return Ok(Found::Window(window.map_err(StoreFailure::Store)?));
        }
    }

    /// Returns the error for a compaction that cannot be read.
    fn unreadable(&self, conversation: &ConversationId, error: RecordError) -> StoreError {
        let profile = self.options.context.profile.clone();
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
        let mut load = Load::new().profile(self.options.context.profile.clone()).limit(self.options.context.load_limit);
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
        let mut pause = FIRST_PAUSE;
        for _ in 1..self.options.save_attempts {
            *attempts += 1;
            match self.append_once(conversation, append, next, *attempts).await {
                Err(error) if is_transient(&error) => {
                    let kind = error.kind();
                    tracing::warn!(error.type = kind, error = %error, "storing an exchange failed; retrying");
                    sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        *attempts += 1;
        self.append_once(conversation, append, next, *attempts).await
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
    ) -> Result<Compacted, StoreError> {
        let replaces = replaced.map_or(CompactionVersion::NONE, |replaced| replaced.version);
        let cuts = Cuts::new(cut).replacing(replaced.map(|replaced| replaced.cut.clone()));
        let compact = cuts.compact(self.options.context.profile.clone(), replaces).map_err(StoreError::backend)?;

        let stored = match self.bounded(self.store.compact(conversation, incarnation, compact)).await? {
            CompactOutcome::Stored(_) => return Ok(Compacted::Stored),
            CompactOutcome::Kept(None) => return Ok(Compacted::Kept(None)),
            CompactOutcome::Kept(Some(stored)) => stored,
        };
        let cuts = Cuts::read(&stored).map_err(|error| self.unreadable(conversation, error))?;
        Ok(Compacted::Kept(Some(StoredCut { version: stored.version, cut: cuts.cut })))
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
    if !DialectName::of(dialect).is_built_in() {
        let in_dialect = |found: &&Recorded| found.exchange.dialect.is(dialect.name());
        for Recorded { exchange, .. } in exchanges.iter().filter(in_dialect) {
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
