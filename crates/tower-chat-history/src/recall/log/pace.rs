//! The errors of a search, its time limit, and the pauses in which it looks at it.

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use tower_chat_history_core::{DialectName, Seq, StoreError};

/// The error of a search in the log of a store, or of its preparation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The store failed.
    #[error("the log could not be read: {0}")]
    Store(#[source] StoreError),
    /// An exchange is stored in a dialect that the search [does not know](crate::recall::LogSearch::dialect).
    #[error("exchange {seq} is stored in the dialect {dialect}, which the search does not know")]
    UnknownDialect {
        /// The position of the exchange.
        seq: Seq,
        /// The dialect of the exchange.
        dialect: DialectName,
    },
    /// The search took longer than its [time limit](crate::recall::LogSearch::time_limit).
    #[error("the search took longer than {0:?}")]
    TimedOut(Duration),
}

impl SearchError {
    /// Returns a short constant name of the kind of failure, for metrics and spans (`error.type`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::UnknownDialect { .. } => "unknown_dialect",
            Self::TimedOut(_) => "timeout",
        }
    }
}

/// The reason to stop early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The incarnation ended, or there is no such conversation.
    Gone,
    Failed(SearchError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Gone => Self::Gone,
            error => Self::Failed(SearchError::Store(error)),
        }
    }
}

/// The [work](crate::recall::Analyzer::work) between two pauses: about a millisecond.
const SLICE: usize = 32 << 10;

/// Lets the runtime run other tasks once.
pub(crate) async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if paused {
            return Poll::Ready(());
        }
        paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Pauses whenever a slice of work is done. After each pause, it checks the time limit: a runtime whose tasks are
/// always ready looks at its timers too rarely.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    limit: Option<Duration>,
    work: usize,
}

impl Pace {
    /// Begins a computation that may take this long.
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { begun: Instant::now(), limit, work: 0 }
    }

    /// Returns the pace of a computation that is a part of this one, and has the same time.
    pub(crate) const fn of_part(&self) -> Self {
        Self { work: 0, ..*self }
    }

    /// Counts work that was done, and pauses if a slice is done.
    pub(crate) async fn worked(&mut self, work: usize) -> Result<(), Stop> {
        self.work = self.work.saturating_add(work);
        if self.work < SLICE { Ok(()) } else { self.pause().await }
    }

    /// Pauses.
    ///
    /// # Errors
    ///
    /// Returns an error if the time is over.
    pub(crate) async fn pause(&mut self) -> Result<(), Stop> {
        self.work = 0;
        pause().await;
        match self.limit {
            Some(limit) if self.begun.elapsed() >= limit => Err(Stop::Failed(SearchError::TimedOut(limit))),
            _ => Ok(()),
        }
    }
}
