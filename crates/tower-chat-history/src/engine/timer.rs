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

/// Ends at its deadline, wherever it is polled.
///
/// A save that was begun in one runtime may be finished in another, or on a thread that has none, and tokio's own timers
/// panic where theirs is gone. This one moves to the runtime that polls it, and else stays with the one it was begun in. If
/// that has been shut down, it never ends: a save without a limit is better than a lost one.
struct Timer {
    deadline: Instant,
    begun_in: Handle,
    armed: Option<(Id, Pin<Box<Sleep>>)>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { deadline, begun_in, armed } = &mut *self;
        let here = Handle::try_current().unwrap_or_else(|_| begun_in.clone());
        let poll = || {
            let (_, sleep) = match armed {
                Some(armed) if armed.0 == here.id() => armed,
                moved => {
                    let _here = here.enter();
                    moved.insert((here.id(), Box::pin(sleep_until(*deadline))))
                }
            };
            sleep.as_mut().poll(context)
        };
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or(Poll::Pending)
    }
}

/// Waits that long; where the clock ends, for ever.
pub(super) async fn sleep(runtime: &Handle, duration: Duration) {
    match Instant::now().checked_add(duration) {
        Some(deadline) => Timer { deadline, begun_in: runtime.clone(), armed: None }.await,
        None => future::pending().await,
    }
}

/// What the future says, if it does so in time. Without a limit, or a runtime to measure it, there is no hurry.
pub(super) async fn timeout<F: Future>(
    runtime: Option<&Handle>,
    limit: Option<Duration>,
    future: F,
) -> Result<F::Output, Duration> {
    let (Some(runtime), Some(limit)) = (runtime, limit) else { return Ok(future.await) };
    match future::select(pin!(future), pin!(sleep(runtime, limit))).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(limit),
    }
}
