//! Timers that outlive their runtime.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{
    runtime::{Handle, Id},
    time::{Instant, Sleep, sleep_until},
};

/// A timer that ends at its deadline in any runtime that polls it.
///
/// A save that begins in one runtime may finish in another one, or on a thread without a runtime. Tokio's own timers
/// panic if their runtime has shut down. This timer moves to the runtime that polls it. Outside of any runtime it
/// uses no tokio timer and never ends: a save without a time limit is better than a lost one.
///
/// Tokio looks at its timers only between tasks, and rarely if a task is always ready. So each poll also reads the
/// clock: work that pauses often ends at its deadline, even if tokio has not looked at its timers yet.
#[derive(Debug)]
pub(super) struct Timer {
    deadline: Option<Instant>,
    armed: Option<(Id, Pin<Box<Sleep>>)>,
}

impl Timer {
    /// Creates a timer that ends after `duration`, measured from now. If the clock cannot represent the deadline, the
    /// timer never ends.
    pub(super) fn after(duration: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(duration), armed: None }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { deadline, armed } = &mut *self;
        let (Some(deadline), Ok(here)) = (*deadline, Handle::try_current()) else { return Poll::Pending };
        let poll = || {
            let (_, sleep) = match armed {
                Some(armed) if armed.0 == here.id() => armed,
                moved => moved.insert((here.id(), Box::pin(sleep_until(deadline)))),
            };
            match sleep.as_mut().poll(context) {
                Poll::Pending if Instant::now() >= deadline => Poll::Ready(()),
                polled => polled,
            }
        };
        // The current runtime may have no timers, or may have shut them down. Only a panic reveals that.
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or(Poll::Pending)
    }
}

/// Waits for `duration`. Outside of a runtime it returns immediately.
pub(crate) async fn sleep(duration: Duration) {
    if Handle::try_current().is_ok() {
        Timer::after(duration).await;
    }
}

/// Returns the future's output, or the limit if the future takes longer. If `limit` is `None`, and outside of a
/// runtime, the time is not limited.
pub(crate) const fn timeout<F: Future>(limit: Option<Duration>, future: F) -> Timeout<F> {
    Timeout { future, limit, timer: None }
}

pin_project! {
    /// See [`timeout`]. The time begins with the first poll.
    #[derive(Debug)]
    pub(crate) struct Timeout<F> {
        #[pin]
        future: F,
        limit: Option<Duration>,
        timer: Option<Timer>,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Duration>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(limit) = *this.limit else { return this.future.poll(context).map(Ok) };
        let timer = this.timer.get_or_insert_with(|| Timer::after(limit));
        match this.future.poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(timer).poll(context).map(|()| Err(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future, pin::pin};

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deadline_holds_although_the_runtime_does_not_look_at_its_timers() {
        let mut work = pin!(timeout(Some(Duration::from_millis(1)), future::pending::<()>()));
        assert_eq!(work.as_mut().now_or_never(), None);
        // The first poll moves the clock. The test does not yield, so the runtime cannot look at its timers.
        assert_eq!(advance(Duration::from_millis(5)).now_or_never(), None);
        assert_eq!(work.now_or_never(), Some(Err(Duration::from_millis(1))));
    }
}
