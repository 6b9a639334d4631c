//! Callers that leave: after some polls, after some time, or in the middle of a stream.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};

use crate::rng::SeededRng;

/// The moment at which a caller leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Stays,
    Polls(u64),
    Time(Duration),
}

impl Patience {
    pub(super) fn any(rng: &mut SeededRng) -> Self {
        match rng.below(4) {
            0 => Self::Polls(rng.between(1, 14)),
            1 => Self::Time(rng.duration(Duration::from_millis(300))),
            _ => Self::Stays,
        }
    }
}

/// Waits for a future until it is ready or the caller leaves; returns `None` if the caller left.
pub(super) async fn wait<T: Send>(patience: Patience, future: BoxFuture<'_, T>) -> Result<Option<T>, &'static str> {
    let waiting =
        Waiting { future: Some(future), polls: if let Patience::Polls(polls) = patience { polls } else { u64::MAX } };
    match patience {
        Patience::Time(time) => {
            let mut waiting = waiting;
            tokio::select! {
                biased;
                output = &mut waiting => output,
                () = tokio::time::sleep(time) => waiting.leave().map(|()| None),
            }
        }
        Patience::Stays | Patience::Polls(_) => waiting.await,
    }
}

/// Drops a value. The drop must not panic.
pub(super) fn drop_checked<T>(it: T) -> Result<(), &'static str> {
    catch_unwind(AssertUnwindSafe(|| drop(it))).map_err(|_| "a drop panics")
}

struct Waiting<'a, T> {
    future: Option<BoxFuture<'a, T>>,
    polls: u64,
}

impl<T> Waiting<'_, T> {
    fn leave(&mut self) -> Result<(), &'static str> {
        drop_checked(self.future.take())
    }
}

impl<T> Future for Waiting<'_, T> {
    type Output = Result<Option<T>, &'static str>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else { return Poll::Ready(Ok(None)) };
        if this.polls == 0 {
            return Poll::Ready(this.leave().map(|()| None));
        }
        this.polls -= 1;
        future.poll_unpin(context).map(|output| Ok(Some(output)))
    }
}
