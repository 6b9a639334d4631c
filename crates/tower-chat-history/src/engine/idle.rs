//! Measuring the time that a reader waits for a stream's next item.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::time::{Sleep, sleep};

/// The number of steps in which a wait is measured.
const STEPS: u32 = 8;

/// Measures the time that a reader waits for the next item of a stream.
///
/// Time in which the reader does not poll must not be measured, but nothing signals that the reader has stopped
/// polling. The limit is therefore divided into steps. The timer of each step wakes the reader, and the next step
/// begins when the reader polls again. If the reader stops polling, at most one step is measured.
#[derive(Debug)]
pub(super) struct Idle {
    limit: Duration,
    waited: u32,
    step: Option<Pin<Box<Sleep>>>,
}

impl Idle {
    /// Creates a measurement that has not begun.
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, waited: 0, step: None }
    }

    /// Starts the measurement again, after an item came.
    pub(super) fn reset(&mut self) {
        (self.waited, self.step) = (0, None);
    }

    /// Polls the wait. It resolves to the limit when the reader has waited that long for the next item.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        while self.waited < STEPS {
            let step = self.step.get_or_insert_with(|| Box::pin(sleep(self.limit / STEPS)));
            std::task::ready!(step.poll_unpin(context));
            self.step = None;
            self.waited += 1;
        }
        Poll::Ready(self.limit)
    }
}
