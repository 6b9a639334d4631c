//! Streams that are remembered when they are complete.
//!
//! Items pass untouched and at once while a [`FoldReply`] collects the reply. A stream is complete when every choice has
//! given its finish reason; from then on the exchange is stored even if the caller stops reading, keeps the stream without
//! reading it, or drops it. The stream's end (or its last item, where callers let go of the stream on seeing it) is held
//! until the exchange is stored, so a caller that has read to the end can ask again at once.
//!
//! Anything less is an interruption: the stream ends without a finish reason (all that one sees of a connection that
//! was cut), an item is an error, no item comes for as long as the [idle
//! timeout](crate::HistoryOptions::stream_idle_timeout), or the caller drops it. [`OnInterruption`] says what then
//! becomes of the exchange.

use std::{
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    FutureExt as _, StreamExt as _,
    stream::{self, BoxStream},
};

use super::{Commit, Engine, Turn, idle::Idle, in_flight::Detached, timer};
use crate::{
    call::{Flow, FoldReply},
    discard::discard_item,
    error::StreamStalled,
    policy::OnInterruption,
    report::NotStored,
    spawn::spawn_guarded,
    telemetry::{self, ModelCall},
};

/// What a stream that was ended by the idle timeout is called in spans (`error.type`).
const STALLED: &str = "stream_idle_timeout";

/// A response stream whose reply is remembered. See the [module docs](self).
pub struct RecordedStream<T: Send + 'static, E: Send + 'static> {
    /// Taken only by the drop, and by giving up.
    recording: Option<Recording<T, E>>,
    /// The last item, while the exchange is being stored.
    held: Option<Result<T, E>>,
    is_stalled: bool,
}

type Stalled<E> = Box<dyn FnOnce(StreamStalled) -> E + Send>;

struct Recording<T: Send + 'static, E: Send + 'static> {
    stream: BoxStream<'static, Result<T, E>>,
    fold: Box<dyn FoldReply<T>>,
    phase: Phase,
    /// The model's call, until its last item.
    call: Option<ModelCall>,
    /// Makes the last item of a stream that brings nothing any more.
    stalled: Option<Stalled<E>>,
    /// Measures how long the next item is waited for, if there is a limit.
    idle: Option<Idle>,
    /// True if the caller has left and the stream is read in the background.
    detached: bool,
}

enum Phase {
    /// Some choice has not ended. A broken stream has had an error: what it says is not whole any more.
    Open {
        turn: Turn,
        broken: bool,
    },
    /// Every choice has ended. The save is registered and waits for the rest (usage), or for whoever needs it done.
    Complete(Commit),
    /// The exchange is being stored; then comes the held item, if any, and the end.
    Ending(Commit),
    Ended,
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
            call.streams();
        }
        let idle = turn.engine().options().stream_idle_timeout.map(Idle::new);
        let phase = Phase::Open { turn, broken: false };
        let stalled = Some(stalled);
        Self::of(Recording { stream, fold, phase, call, stalled, idle, detached: false })
    }

    const fn of(recording: Recording<T, E>) -> Self {
        Self { recording: Some(recording), held: None, is_stalled: false }
    }

    /// Returns whether the stream was ended since it brought no item for as long as the [idle
    /// timeout](crate::HistoryOptions::stream_idle_timeout). Where its reply was not complete, its last item is an
    /// error.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Reads on the stream without its caller. It is counted until it ends.
    fn detach(mut self, engine: &Engine, place: Detached) {
        let limit = engine.options().policies.detach_limits.timeout;
        let task = async move {
            let _place = place;
            let rest = self.by_ref().for_each(|item| {
                discard_item(item);
                std::future::ready(())
            });
            if timer::timeout(limit, rest).await.is_err() {
                self.give_up();
            }
        };
        spawn_guarded(&*engine.options().spawn, Box::pin(task));
    }

    /// Ends a detached stream whose time is over. A complete reply is stored all the same.
    fn give_up(mut self) {
        if let Some(mut recording) = self.recording.take() {
            if let Phase::Open { turn, .. } = mem::replace(&mut recording.phase, Phase::Ended) {
                tracing::warn!(parent: turn.span(), "a stream without its caller was not read to its end in time");
                if let Some(call) = recording.call.take() {
                    call.left(&recording.fold.reply());
                }
                turn.end(NotStored::DetachLimit);
            } else {
                recording.leave();
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Recording<T, E> {
    /// Asks for the next item, within the span of the call.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        let item = match &self.call {
            Some(call) => {
                let _entered = call.called_in().enter();
                ready!(self.stream.poll_next_unpin(context))
            }
            None => ready!(self.stream.poll_next_unpin(context)),
        };
        if let Some(idle) = &mut self.idle {
            idle.reset();
        }
        if let (Some(call), Some(Ok(_))) = (&mut self.call, &item) {
            call.has_item();
        }
        Poll::Ready(item)
    }

    /// What is left to do of a stream that brings nothing any more. Returns its last item, if its reply is not
    /// complete.
    fn stall(&mut self, after: Duration) -> Option<Result<T, E>> {
        // Whoever sends it need not go on.
        self.stream = stream::empty().boxed();
        if !matches!(self.phase, Phase::Open { .. }) {
            self.end();
            return None;
        }
        if let Phase::Open { turn, .. } = mem::replace(&mut self.phase, Phase::Ended) {
            tracing::warn!(parent: turn.span(), error = %StreamStalled { after }, "a stream that stalled was ended");
            self.broken_off(turn, STALLED, NotStored::Stalled);
        }
        self.stalled.take().map(|stalled| Err(stalled(StreamStalled { after })))
    }

    /// What is left to do of a turn whose reply broke off, for that reason.
    fn broken_off(&mut self, turn: Turn, kind: &str, why: NotStored) {
        telemetry::fail(turn.span(), kind);
        if let Some(call) = self.call.take() {
            call.interrupted(kind, &self.fold.reply());
        }
        self.phase = self.interrupted(turn, why).map_or(Phase::Ended, Phase::Ending);
    }

    /// Looks at an item on its way, and says whether it may pass.
    fn observe(&mut self, item: &Result<T, E>) -> Flow {
        let flow = match item {
            Ok(item) => self.fold.push(item),
            Err(_) => {
                if let Phase::Open { broken, .. } = &mut self.phase {
                    *broken = true;
                }
                Flow::Pass
            }
        };
        if self.fold.is_complete() {
            self.phase = match mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Open { turn, broken: false } => Phase::Complete(turn.commit(self.fold.reply())),
                other => other,
            };
        }
        flow
    }

    /// What is left to do at the stream's end.
    fn end(&mut self) {
        self.phase = match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Complete(commit) => {
                let reply = self.fold.reply();
                if let Some(call) = self.call.take() {
                    call.ended(&reply);
                }
                commit.update(reply);
                Phase::Ending(commit)
            }
            Phase::Open { turn, broken: false } if self.fold.is_whole() => {
                let reply = self.fold.reply();
                if let Some(call) = self.call.take() {
                    call.ended(&reply);
                }
                Phase::Ending(turn.commit(reply))
            }
            Phase::Open { turn, broken } => {
                // What a cut connection leaves is no error by itself: the stream just ends too early.
                let kind = if broken { "stream" } else { "incomplete_stream" };
                return self.broken_off(turn, kind, NotStored::Interrupted);
            }
            ending => ending,
        };
    }

    /// What is left to store of a turn whose reply broke off. `why` is told where that is nothing.
    fn interrupted(&self, turn: Turn, why: NotStored) -> Option<Commit> {
        let kept = match turn.engine().options().policies.on_interruption {
            OnInterruption::KeepText => self.fold.partial(),
            OnInterruption::Discard | OnInterruption::Detach => None,
        };
        match kept {
            Some(reply) => Some(turn.commit(reply)),
            None => {
                turn.end(self.fold.reply().unreadable.map_or(why, NotStored::UnreadableReply));
                None
            }
        }
    }

    /// Returns the engine with which it is to go on without the caller, until its reply is complete. A stream that is
    /// dropped in the background, as its runtime shuts down, is not detached once more.
    fn detaches(&self) -> Option<(Engine, Option<Detached>)> {
        let Phase::Open { turn, broken: false } = &self.phase else { return None };
        let engine = turn.engine();
        let detaches = engine.options().policies.on_interruption == OnInterruption::Detach && !self.detached;
        let limits = engine.options().policies.detach_limits;
        let place = || engine.shared.in_flight.detached(turn.conversation(), limits);
        detaches.then(|| (engine.clone(), place()))
    }

    /// Goes on without the caller. A commit that is dropped here is not done yet and hands itself to the spawner.
    fn leave(mut self) {
        let why = match self.detaches() {
            Some((engine, Some(place))) => {
                return RecordedStream::of(Self { detached: true, ..self }).detach(&engine, place);
            }
            Some((_, None)) => {
                tracing::warn!("a stream whose caller left is not read on: there are too many of them");
                NotStored::DetachLimit
            }
            None => NotStored::Interrupted,
        };
        if let Some(call) = self.call.take() {
            let reply = self.fold.reply();
            // Of a complete reply nothing is missing that anybody waits for.
            if matches!(self.phase, Phase::Complete(_)) { call.ended(&reply) } else { call.left(&reply) }
        }
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Open { turn, .. } => drop(self.interrupted(turn, why)),
            Phase::Complete(commit) => commit.update(self.fold.reply()),
            Phase::Ending(_) | Phase::Ended => {}
        }
    }
}

// Nothing in it is pinned: the stream is boxed, items are only moved.
impl<T: Send, E: Send> Unpin for RecordedStream<T, E> {}

impl<T: Send, E: Send> Stream for RecordedStream<T, E> {
    type Item = Result<T, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { recording, held, is_stalled } = &mut *self;
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
                    // A failure is in the report: the items are out.
                    drop(ready!(commit.poll_unpin(context)));
                    recording.phase = Phase::Ended;
                }
                Phase::Ended => return Poll::Ready(held.take()),
            }
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for RecordedStream<T, E> {
    fn drop(&mut self) {
        if let Some(item) = self.held.take() {
            discard_item(item);
        }
        // What the fold does is an adapter's code, and must not panic out of a drop.
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
            Phase::Ended => "ended",
        });
        f.debug_struct("RecordedStream").field("phase", &phase).finish_non_exhaustive()
    }
}
