//! The state of a recorded stream: its reply so far, and the turn that stores it.

use std::{
    mem,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};

use super::RecordedStream;
use crate::{
    call::{Flow, FoldReply, Reply},
    engine::{Commit, Turn, idle::Idle},
    error::StreamStalled,
    policy::OnInterruption,
    report::NotStored,
    telemetry::{self, ModelCall},
};

/// The `error.type` in spans of a stream that the idle timeout ended.
const STALLED: &str = "stream_idle_timeout";

/// Makes the error that is the last item of a stalled stream.
pub(super) type Stalled<E> = Box<dyn FnOnce(StreamStalled) -> E + Send>;

pub(super) struct Recording<T: Send + 'static, E: Send + 'static> {
    pub(super) stream: BoxStream<'static, Result<T, E>>,
    pub(super) fold: Box<dyn FoldReply<T>>,
    pub(super) phase: Phase,
    /// The model call, until its last item.
    pub(super) call: Option<ModelCall>,
    /// Makes the last item of a stalled stream. `None` after that item was made.
    pub(super) stalled: Option<Stalled<E>>,
    /// Measures the time until the next item, if there is an idle timeout.
    pub(super) idle: Option<Idle>,
    /// True if the caller has left and the stream is read in the background.
    pub(super) detached: bool,
}

pub(super) enum Phase {
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
pub(super) enum Rest<T, E> {
    Item(Result<T, E>),
    End,
    /// No item came within the idle timeout.
    Stalled,
}

impl<T, E> Rest<T, E> {
    pub(super) fn item(self) -> Option<Result<T, E>> {
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
    pub(super) fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
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
    pub(super) fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Rest<T, E>> {
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
    pub(super) fn stall(&mut self, after: Duration) -> Option<Result<T, E>> {
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
    pub(super) fn broken(&self, turn: &Turn) -> Broken {
        let keeps = turn.engine().options().policies.on_interruption == OnInterruption::KeepText;
        Broken { reply: self.fold.reply(), partial: if keeps { self.fold.partial() } else { None } }
    }

    /// Adds an item to the reply, and begins the commit when the reply is complete. The result determines the time at
    /// which the item is passed on.
    pub(super) fn observe(&mut self, item: &Result<T, E>) -> Flow {
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
    pub(super) fn end(&mut self) {
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
    pub(super) fn leave(mut self) {
        let mut why = NotStored::Interrupted;
        // A detached stream that is dropped, for example because its runtime shuts down, is not detached again.
        if let Phase::Open { turn, broken: false } = &self.phase
            && turn.engine().options().policies.on_interruption == OnInterruption::Detach
            && !self.detached
        {
            let engine = turn.engine().clone();
            let runtime = turn.runtime().clone();
            let limits = engine.options().policies.detach_limits;
            if let Some(guard) = engine.shared.in_flight.detached(turn.conversation(), limits) {
                let stream = RecordedStream::of(Self { detached: true, ..self });
                let task = async move {
                    let _guard = guard;
                    stream.read_out(limits.timeout).await;
                };
                engine.shared.tasks.spawn_on(task, &runtime);
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
pub(super) struct Broken {
    /// The reply so far.
    pub(super) reply: Reply,
    /// The part of it to store, if the options say to keep it.
    partial: Option<Reply>,
}

impl Broken {
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
