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

/// A timer that ends at its deadline in any runtime that polls it.
///
/// A save that begins in one runtime may finish in another one, or on a thread without a runtime. Tokio's own timers
/// panic if their runtime has shut down. This timer moves to the runtime that polls it. Outside of any runtime it
/// uses no tokio timer and never ends: a save without a time limit is better than a lost one.
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
            sleep.as_mut().poll(context)
        };
        // The current runtime may have no timers, or may have shut them down. Only a panic reveals that.
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or(Poll::Pending)
    }
}

/// Waits for `duration`. Outside of a runtime it returns immediately.
pub(super) async fn sleep(duration: Duration) {
    if Handle::try_current().is_ok() {
        Timer::after(duration).await;
    }
}

/// Returns the future's output, or the limit if the future takes longer. If `limit` is `None`, and outside of a
/// runtime, the time is not limited.
pub(super) async fn timeout<F: Future>(limit: Option<Duration>, future: F) -> Result<F::Output, Duration> {
    let Some(limit) = limit else { return Ok(future.await) };
    match future::select(pin!(future), Timer::after(limit)).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(limit),
    }
}
