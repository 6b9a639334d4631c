//! Response streams whose reply is stored when it is complete.
//!
//! A [`RecordedStream`] yields the items of the inner stream unchanged and without delay, while a [`FoldReply`]
//! assembles the reply. A reply is complete as soon as every choice has a finish reason. As soon as it is complete,
//! the exchange will be stored, even if the caller drops the stream or stops reading it. The stream ends only after
//! the save, so a caller that has read to the end can make the next call immediately. Callers may stop reading at a
//! known last item (`[DONE]`). The stream therefore yields that item, too, only after the save.
//!
//! A stream is interrupted in these cases:
//! - The stream ends without a finish reason, which is how a broken connection appears.
//! - An item is an error.
//! - No item comes within the [idle timeout](crate::HistoryOptions::stream_idle_timeout).
//! - The caller drops the stream before the reply is complete.
//!
//! [`OnInterruption`](crate::policy::OnInterruption) then decides if a part of the exchange is stored.
//!
//! If the stream or the fold panics, the caller gets the panic, and nothing is stored unless the reply was complete. A
//! caller that catches the panic and reads on gets the end of the stream.

mod recording;

use std::{
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};

use self::recording::{Phase, Recording, Rest, Stalled};
use super::{Turn, idle::Idle};
use crate::{
    call::{Flow, FoldReply},
    report::NotStored,
    telemetry::ModelCall,
    timeout::timeout,
};

/// A response stream whose reply is stored. See the [module docs](self).
pub struct RecordedStream<T: Send + 'static, E: Send + 'static> {
    /// `None` only after the stream was dropped, or after the time limit of a detached stream.
    recording: Option<Recording<T, E>>,
    /// The last item, while the exchange is being stored.
    held: Option<Result<T, E>>,
    is_stalled: bool,
    /// True if the items after the last one that is recorded are passed on, too.
    has_rest: bool,
}

impl<T: Send + 'static, E: Send + 'static> RecordedStream<T, E> {
    pub(super) fn new(
        stream: BoxStream<'static, Result<T, E>>,
        fold: Box<dyn FoldReply<T>>,
        stalled: Stalled<E>,
        turn: Turn,
        call: Option<ModelCall>,
    ) -> Self {
        if let Some(call) = &call {
            call.set_streamed();
        }
        let idle = turn.engine().options().stream_idle_timeout.map(Idle::new);
        let phase = Phase::Open { turn, broken: false };
        let stalled = Some(stalled);
        Self::of(Recording { stream, fold, phase, call, stalled, idle, detached: false })
    }

    const fn of(recording: Recording<T, E>) -> Self {
        Self { recording: Some(recording), held: None, is_stalled: false, has_rest: false }
    }

    /// Passes on the items that the inner stream has after the item for which the fold returned [`Flow::Hold`]. They
    /// are not recorded. The [idle timeout](crate::HistoryOptions::stream_idle_timeout) applies to them, too, and ends
    /// the stream without an error. By default, the stream ends with that item.
    #[must_use]
    pub const fn with_rest(mut self) -> Self {
        self.has_rest = true;
        self
    }

    /// Returns `true` if the [idle timeout](crate::HistoryOptions::stream_idle_timeout) ended the stream. If its
    /// reply was not complete, its last item is an error.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Reads a detached stream to its end, if that takes no longer than this.
    async fn read_out(mut self, limit: Option<Duration>) {
        let rest = self.by_ref().for_each(|_| std::future::ready(()));
        if timeout(limit, rest).await.is_err() {
            self.give_up();
        }
    }

    /// Ends a detached stream whose time is over. If its reply is complete, it is still stored.
    fn give_up(mut self) {
        if let Some(mut recording) = self.recording.take() {
            if let Phase::Open { turn, .. } = mem::replace(&mut recording.phase, Phase::Ended) {
                tracing::warn!(
                    parent: turn.span(),
                    "a detached stream did not end within its time limit; its exchange is not stored"
                );
                if let Some(call) = recording.call.take() {
                    call.left(&recording.broken(&turn).reply);
                }
                turn.end(NotStored::DetachLimit);
            } else {
                recording.leave();
            }
        }
    }
}

// No field is pinned: the stream is boxed, and items are only moved.
impl<T: Send, E: Send> Unpin for RecordedStream<T, E> {}

impl<T: Send, E: Send> Stream for RecordedStream<T, E> {
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { recording, held, is_stalled, has_rest } = &mut *self;
        let Some(recording) = recording else { return Poll::Ready(None) };
        loop {
            match &mut recording.phase {
                Phase::Open { .. } | Phase::Complete(_) => match recording.poll_item(context) {
                    Poll::Pending => {
                        let Some(idle) = &mut recording.idle else { return Poll::Pending };
                        let after = ready!(idle.poll(context));
                        *is_stalled = true;
                        *held = recording.stall(after);
                    }
                    Poll::Ready(None) => recording.end(),
                    Poll::Ready(Some(item)) => match recording.observe(&item) {
                        Flow::Pass => return Poll::Ready(Some(item)),
                        Flow::Hold => {
                            *held = Some(item);
                            recording.end();
                        }
                    },
                },
                Phase::Ending(commit) => {
                    // The items have already been delivered, so a failed save appears only in the report.
                    drop(ready!(commit.poll_unpin(context)));
                    recording.phase = Phase::Ended;
                }
                Phase::Ended => {
                    let last = held.take();
                    if *has_rest && !*is_stalled && last.is_some() {
                        recording.phase = Phase::Rest;
                    }
                    return Poll::Ready(last);
                }
                Phase::Rest => {
                    let polled = recording.poll_rest(context);
                    *is_stalled = matches!(polled, Poll::Ready(Rest::Stalled));
                    return polled.map(Rest::item);
                }
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for RecordedStream<T, E> {
    fn drop(&mut self) {
        // The fold is code of the adapter. A panic in it must not escape from `drop`.
        if let Some(recording) = self.recording.take()
            && catch_unwind(AssertUnwindSafe(|| recording.leave())).is_err()
        {
            tracing::error!("the fold of a stream panicked while the stream was dropped");
        }
    }
}

impl<T: Send, E: Send> fmt::Debug for RecordedStream<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.recording.as_ref().map(|recording| match recording.phase {
            Phase::Open { .. } => "open",
            Phase::Complete(_) => "complete",
            Phase::Ending(_) => "ending",
            Phase::Rest => "rest",
            Phase::Ended => "ended",
        });
        f.debug_struct("RecordedStream").field("phase", &phase).finish_non_exhaustive()
    }
}
