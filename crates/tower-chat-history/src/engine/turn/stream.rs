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
//!
//! # Decisions
//!
//! - **The save is registered at the last finish reason, and starts when it is first polled.** From then on the
//!   exchange must be stored, but a provider reports usage only after the finish reason.
//! - **An error item is an interruption**, even if a finish reason follows: async-openai goes on after a chunk that it
//!   can't parse, and the reply then lacks this chunk.
//! - **A stalled stream ends with an error.** Without it, the stream would look complete.

use std::{
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};
use tokio::time::{Sleep, sleep};

use super::{super::saves::Commit, Turn};
use crate::{
    call::{Flow, FoldReply, Reply},
    error::StreamStalled,
    policy::OnInterruption,
    report::NotStored,
    telemetry::{self, ModelCall},
    timeout::timeout,
};

/// The `error.type` in spans of a stream that the idle timeout ended.
const STALLED: &str = "stream_idle_timeout";

/// Makes the error that is the last item of a stalled stream.
type Stalled<E> = Box<dyn FnOnce(StreamStalled) -> E + Send>;

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
        let idle = turn.parts().options().stream_idle_timeout.map(IdleTimer::new);
        let phase = Phase::Open { turn, broken: false };
        Self::of(Recording { stream, fold, phase, call, stalled: Some(stalled), idle, detached: false })
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

/// The state of a recorded stream: its reply so far, and the turn that stores it.
struct Recording<T: Send + 'static, E: Send + 'static> {
    stream: BoxStream<'static, Result<T, E>>,
    fold: Box<dyn FoldReply<T>>,
    phase: Phase,
    /// The model call, until its last item.
    call: Option<ModelCall>,
    /// Makes the last item of a stalled stream. `None` after that item was made.
    stalled: Option<Stalled<E>>,
    /// Measures the time until the next item, if there is an idle timeout.
    idle: Option<IdleTimer>,
    /// True if the caller has left and the stream is read in the background.
    detached: bool,
}

enum Phase {
    /// The reply is not complete. If `broken` is true, an item was an error, and the reply can no longer become
    /// complete.
    Open {
        turn: Turn,
        broken: bool,
    },
    /// The reply is complete. The save is registered. It begins after the remaining items (usage), or earlier if
    /// another call or a drain polls it.
    Complete(Commit),
    /// The exchange is being stored. After that, the stream yields the held item, if any, and ends.
    Ending(Commit),
    /// The turn is over, and the stream yields the items after the held one.
    Rest,
    Ended,
}

/// The result of a poll after the held item.
enum Rest<T, E> {
    Item(Result<T, E>),
    End,
    /// No item came within the idle timeout.
    Stalled,
}

impl<T, E> Rest<T, E> {
    fn item(self) -> Option<Result<T, E>> {
        match self {
            Self::Item(item) => Some(item),
            Self::End | Self::Stalled => None,
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Recording<T, E> {
    /// Calls the stream or the fold. If the call panics, the recording has ended: the stream has lost its state, or the
    /// fold lacks an item.
    fn call_out<R>(&mut self, call: impl FnOnce(&mut Self) -> R) -> R {
        let phase = mem::replace(&mut self.phase, Phase::Ended);
        let called = call(self);
        self.phase = phase;
        called
    }

    /// Polls the next item, within the span of the call.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        let item = ready!(self.call_out(|recording| {
            let _entered = recording.call.as_ref().map(|call| call.called_in().enter());
            recording.stream.poll_next_unpin(context)
        }));
        if let Some(idle) = &mut self.idle {
            idle.reset();
        }
        if let (Some(call), Some(Ok(_))) = (&mut self.call, &item) {
            call.record_item();
        }
        Poll::Ready(item)
    }

    /// Polls the next item after the held one.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Rest<T, E>> {
        let rest = match self.poll_item(context) {
            Poll::Ready(Some(item)) => return Poll::Ready(Rest::Item(item)),
            Poll::Ready(None) => Rest::End,
            Poll::Pending if self.idle.as_mut().is_some_and(|idle| idle.poll(context).is_ready()) => {
                self.release();
                Rest::Stalled
            }
            Poll::Pending => return Poll::Pending,
        };
        self.phase = Phase::Ended;
        Poll::Ready(rest)
    }

    /// Drops the inner stream, which releases its connection.
    fn release(&mut self) {
        self.stream = stream::empty().boxed();
    }

    /// Ends a stream after the idle timeout. If its reply is not complete, returns the error that is its last item.
    fn stall(&mut self, after: Duration) -> Option<Result<T, E>> {
        self.release();
        if !matches!(self.phase, Phase::Open { .. }) {
            self.end();
            return None;
        }
        if let Phase::Open { turn, .. } = mem::replace(&mut self.phase, Phase::Ended) {
            tracing::warn!(parent: turn.span(), error = %StreamStalled { after }, "a stalled stream was ended");
            self.break_off(turn, STALLED, NotStored::Stalled);
        }
        self.stalled.take().map(|stalled| Err(stalled(StreamStalled { after })))
    }

    /// Ends a turn whose reply broke off. Its spans get `kind` as their error type.
    fn break_off(&mut self, turn: Turn, kind: &str, why: NotStored) {
        telemetry::fail(turn.span(), kind);
        let broken = self.broken(&turn);
        if let Some(call) = self.call.take() {
            call.interrupted(kind, &broken.reply);
        }
        self.phase = broken.end(turn, why).map_or(Phase::Ended, Phase::Ending);
    }

    /// Returns the turn's reply, which broke off.
    fn broken(&self, turn: &Turn) -> BrokenReply {
        let keeps = turn.parts().options().policies.on_interruption == OnInterruption::KeepText;
        let reply = self.fold.reply();
        let partial = if keeps { self.fold.partial() } else { None };
        BrokenReply { reply, partial }
    }

    /// Adds an item to the reply, and begins the commit when the reply is complete. The result determines the time at
    /// which the item is passed on.
    fn observe(&mut self, item: &Result<T, E>) -> Flow {
        let flow = match item {
            Ok(item) => self.call_out(|recording| recording.fold.push(item)),
            Err(_) => {
                if let Phase::Open { broken, .. } = &mut self.phase {
                    *broken = true;
                }
                Flow::Pass
            }
        };
        if matches!(self.phase, Phase::Open { broken: false, .. })
            && let Some(reply) = self.call_out(|recording| recording.fold.is_complete().then(|| recording.fold.reply()))
        {
            self.phase = match mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Open { turn, .. } => Phase::Complete(turn.commit(reply)),
                other => other,
            };
        }
        flow
    }

    /// Handles the end of the inner stream: begins to store the exchange, or breaks the turn off if the reply is not
    /// complete.
    fn end(&mut self) {
        let phase = mem::replace(&mut self.phase, Phase::Ended);
        let reply = match phase {
            Phase::Complete(_) => Some(self.fold.reply()),
            Phase::Open { broken: false, .. } => self.fold.is_whole().then(|| self.fold.reply()),
            Phase::Open { broken: true, .. } | Phase::Ending(_) | Phase::Rest | Phase::Ended => None,
        };
        if let Some(reply) = &reply
            && let Some(call) = self.call.take()
        {
            call.ended(reply);
        }
        self.phase = match (phase, reply) {
            (Phase::Complete(commit), Some(reply)) => {
                commit.update(reply);
                Phase::Ending(commit)
            }
            (Phase::Open { turn, .. }, Some(reply)) => Phase::Ending(turn.commit(reply)),
            (Phase::Open { turn, broken }, None) => {
                // A broken connection may appear as an early end of the stream, without an error.
                let kind = if broken { "stream" } else { "incomplete_stream" };
                return self.break_off(turn, kind, NotStored::Interrupted);
            }
            (ending, _) => ending,
        };
    }

    /// Handles the drop of the stream by its caller. If a commit is dropped here before it is done, a task does the
    /// rest of it.
    fn leave(mut self) {
        let mut why = NotStored::Interrupted;
        // A detached stream that is dropped, for example because its runtime shuts down, is not detached again.
        if let Phase::Open { turn, broken: false } = &self.phase
            && turn.parts().options().policies.on_interruption == OnInterruption::Detach
            && !self.detached
        {
            let parts = Arc::clone(turn.parts());
            let runtime = turn.runtime().clone();
            let limits = parts.options().policies.detach_limits;
            if let Some(guard) = parts.detached.try_detach(turn.conversation(), limits) {
                let stream = RecordedStream::of(Self { detached: true, ..self });
                let task = async move {
                    let _guard = guard;
                    stream.read_out(limits.timeout).await;
                };
                parts.tasks.spawn_on(task, &runtime);
                return;
            }
            tracing::warn!("a dropped stream is not read to its end: the limit of detached streams is reached");
            why = NotStored::DetachLimit;
        }
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Open { turn, .. } => {
                let broken = self.broken(&turn);
                if let Some(call) = self.call.take() {
                    call.left(&broken.reply);
                }
                drop(broken.end(turn, why));
            }
            Phase::Complete(commit) => {
                let reply = self.fold.reply();
                // The caller missed nothing, so the call counts as ended.
                if let Some(call) = self.call.take() {
                    call.ended(&reply);
                }
                commit.update(reply);
            }
            Phase::Ending(_) | Phase::Rest | Phase::Ended => {}
        }
    }
}

/// A reply that broke off.
#[derive(Default)]
struct BrokenReply {
    /// The reply so far.
    reply: Reply,
    /// The part of it to store, if the options say to keep it.
    partial: Option<Reply>,
}

impl BrokenReply {
    /// Begins the commit of the part to store. If there is none, it ends the turn without storing, for the reason
    /// `why`.
    fn end(self, turn: Turn, why: NotStored) -> Option<Commit> {
        match self.partial {
            Some(partial) => Some(turn.commit(partial)),
            None => {
                turn.end(self.reply.unreadable.map_or(why, NotStored::UnreadableReply));
                None
            }
        }
    }
}

/// The number of steps in which a wait is measured.
const IDLE_STEPS: u32 = 8;

/// Measures the time that a reader waits for the next item of a stream.
///
/// Time in which the reader does not poll must not be measured, but nothing signals that the reader has stopped
/// polling. The limit is therefore divided into steps. The timer of each step wakes the reader, and the next step
/// begins when the reader polls again. If the reader stops polling, at most one step is measured.
#[derive(Debug)]
struct IdleTimer {
    limit: Duration,
    waited: u32,
    step: Option<Pin<Box<Sleep>>>,
}

impl IdleTimer {
    /// Creates a measurement that has not begun.
    const fn new(limit: Duration) -> Self {
        Self { limit, waited: 0, step: None }
    }

    /// Starts the measurement again, after an item came.
    fn reset(&mut self) {
        self.waited = 0;
        self.step = None;
    }

    /// Polls the wait. It resolves to the limit when the reader has waited that long for the next item.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        while self.waited < IDLE_STEPS {
            let step = self.step.get_or_insert_with(|| Box::pin(sleep(self.limit / IDLE_STEPS)));
            ready!(step.poll_unpin(context));
            self.step = None;
            self.waited += 1;
        }
        Poll::Ready(self.limit)
    }
}
