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
    call::{Flow, FoldReply},
    engine::{Commit, Engine, Turn, idle::Idle, in_flight::Detached},
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
    Ended,
}

impl<T: Send + 'static, E: Send + 'static> Recording<T, E> {
    /// Polls the next item, within the span of the call.
    pub(super) fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
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
            call.record_item();
        }
        Poll::Ready(item)
    }

    /// Ends a stream after the idle timeout. If its reply is not complete, returns the error that is its last item.
    pub(super) fn stall(&mut self, after: Duration) -> Option<Result<T, E>> {
        // Dropping the stream releases the connection.
        self.stream = stream::empty().boxed();
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
        if let Some(call) = self.call.take() {
            call.interrupted(kind, &self.fold.reply());
        }
        self.phase = self.interrupted(turn, why).map_or(Phase::Ended, Phase::Ending);
    }

    /// Adds an item to the reply, and begins the commit when the reply is complete. The result determines the time at
    /// which the item is passed on.
    pub(super) fn observe(&mut self, item: &Result<T, E>) -> Flow {
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

    /// Handles the end of the inner stream: begins to store the exchange, or breaks the turn off if the reply is not
    /// complete.
    pub(super) fn end(&mut self) {
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
                // A broken connection may appear as an early end of the stream, without an error.
                let kind = if broken { "stream" } else { "incomplete_stream" };
                return self.break_off(turn, kind, NotStored::Interrupted);
            }
            ending => ending,
        };
    }

    /// Begins the commit of the text so far under `KeepText`, if there is any. Otherwise ends the turn without
    /// storing anything, for the reason `why`.
    fn interrupted(&self, turn: Turn, why: NotStored) -> Option<Commit> {
        let partial = match turn.engine().options().policies.on_interruption {
            OnInterruption::KeepText => self.fold.partial(),
            OnInterruption::Discard | OnInterruption::Detach => None,
        };
        match partial {
            Some(reply) => Some(turn.commit(reply)),
            None => {
                turn.end(self.fold.reply().unreadable.map_or(why, NotStored::UnreadableReply));
                None
            }
        }
    }

    /// Returns the engine if the stream should be detached, and a guard that counts it. The guard is `None` if a
    /// limit is reached. A detached stream that is dropped, for example because its runtime shuts down, is not
    /// detached again.
    fn detaches(&self) -> Option<(Engine, Option<Detached>)> {
        let Phase::Open { turn, broken: false } = &self.phase else { return None };
        let engine = turn.engine();
        let detaches = engine.options().policies.on_interruption == OnInterruption::Detach && !self.detached;
        let limits = engine.options().policies.detach_limits;
        let guard = || engine.shared.in_flight.detached(turn.conversation(), limits);
        detaches.then(|| (engine.clone(), guard()))
    }

    /// Handles the drop of the stream by its caller. If a commit is dropped here before it is done, the spawner runs
    /// the rest of it.
    pub(super) fn leave(mut self) {
        let why = match self.detaches() {
            Some((engine, Some(guard))) => {
                return RecordedStream::of(Self { detached: true, ..self }).detach(&engine, guard);
            }
            Some((_, None)) => {
                tracing::warn!("a dropped stream is not read to its end: the limit of detached streams is reached");
                NotStored::DetachLimit
            }
            None => NotStored::Interrupted,
        };
        if let Some(call) = self.call.take() {
            let reply = self.fold.reply();
            // If the reply is complete, the call has ended: the caller has received the whole reply.
            if matches!(self.phase, Phase::Complete(_)) { call.ended(&reply) } else { call.left(&reply) }
        }
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Open { turn, .. } => drop(self.interrupted(turn, why)),
            Phase::Complete(commit) => commit.update(self.fold.reply()),
            Phase::Ending(_) | Phase::Ended => {}
        }
    }
}
