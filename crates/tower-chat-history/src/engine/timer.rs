//! Timers that outlive their runtime.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{self, Either};
use tokio::{
    runtime::{Handle, Id},
    time::{Instant, Sleep, sleep_until},
};

/// Ends at its deadline, in whatever runtime polls it.
///
/// A save that was begun in one runtime may be finished in another, or on a thread that has none, and tokio's own
/// timers panic where theirs is gone. This one moves to the runtime that polls it. Outside of any runtime it touches no
/// timer of tokio's and never ends: a save without a limit is better than a lost one.
#[derive(Debug)]
pub(super) struct Timer {
    deadline: Option<Instant>,
    armed: Option<(Id, Pin<Box<Sleep>>)>,
}

impl Timer {
    /// Ends after that time, measured from now. A time beyond what the clock can say never ends.
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
            sleep.as_mut().poll(context)
        };
        // A runtime can be entered that has no timers, or has them no more. Nothing tells before it is tried.
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or(Poll::Pending)
    }
}

/// Waits that long; outside of a runtime, not at all.
pub(super) async fn sleep(duration: Duration) {
    if Handle::try_current().is_ok() {
        Timer::after(duration).await;
    }
}

/// Returns what the future says, if it does so in time. There is no limit without one, and none outside of a runtime.
pub(super) async fn timeout<F: Future>(limit: Option<Duration>, future: F) -> Result<F::Output, Duration> {
    let Some(limit) = limit else { return Ok(future.await) };
    match future::select(pin!(future), Timer::after(limit)).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(limit),
    }
}
