//! Measuring how long a stream is waited for.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;

use super::timer::Timer;

/// In how many steps a wait is measured.
const STEPS: u32 = 8;

/// Measures how long somebody waits for the next item of a stream.
///
/// A reader that is away polls nothing, and nothing tells that it is away. So the limit is measured in steps: the timer of a
/// step wakes the reader, and the next step begins when the reader polls. A reader that is away misses at most one step.
#[derive(Debug)]
pub(super) struct Idle {
    limit: Duration,
    waited: u32,
    step: Option<Timer>,
}

impl Idle {
    /// Nothing was waited for yet.
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, waited: 0, step: None }
    }

    /// Begins anew: an item came.
    pub(super) fn reset(&mut self) {
        (self.waited, self.step) = (0, None);
    }

    /// Returns the limit when the next item was waited for that long.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        while self.waited < STEPS {
            let step = self.step.get_or_insert_with(|| Timer::after(self.limit / STEPS));
            std::task::ready!(step.poll_unpin(context));
            self.step = None;
            self.waited += 1;
        }
        Poll::Ready(self.limit)
    }
}
