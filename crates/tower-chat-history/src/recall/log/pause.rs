//! Pauses between pieces of computation, and the time limit of a search.

use std::{
    future::poll_fn,
    task::Poll,
    time::{Duration, Instant},
};

use super::error::Stop;

/// The [work](crate::recall::Analyzer::work) between two pauses: about a millisecond.
pub(crate) const SLICE: usize = 32 << 10;

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
            Some(limit) if self.begun.elapsed() >= limit => Err(Stop::TimedOut(limit)),
            _ => Ok(()),
        }
    }
}
