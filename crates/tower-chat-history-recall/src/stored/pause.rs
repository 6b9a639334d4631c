//! Pauses between pieces of computation.

use std::{future::poll_fn, task::Poll};

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
