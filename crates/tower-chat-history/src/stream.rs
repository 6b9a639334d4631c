//! Streams that are remembered when they are complete.
//!
//! Items pass untouched and at once while a [`FoldReply`] collects the reply. A stream is complete when every choice has
//! given its finish reason; from then on the exchange is stored even if the caller stops reading, keeps the stream without
//! reading it, or drops it. The stream's end (or its last item, where callers let go of the stream on seeing it) is held
//! until the exchange is stored, so a caller that has read to the end can ask again at once.
//!
//! Anything less is an interruption: the stream ends without a finish reason (all that one sees of a connection that was
//! cut), an item is an error, or the caller drops it. [`OnInterruption`] says what then becomes of the exchange.

use std::{
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _, stream::BoxStream};

use crate::{
    Commit, NotStored, OnInterruption, Turn,
    adapt::{Flow, FoldReply},
    telemetry::{self, ModelCall},
};

/// A response stream whose reply is remembered. See the [module docs](self).
pub struct RecordedStream<T: Send + 'static, E: Send + 'static> {
    /// Taken only by the drop.
    recording: Option<Recording<T, E>>,
    /// The last item, while the exchange is being stored.
    held: Option<Result<T, E>>,
}

struct Recording<T: Send + 'static, E: Send + 'static> {
    stream: BoxStream<'static, Result<T, E>>,
    fold: Box<dyn FoldReply<T>>,
    phase: Phase,
    /// The model's call, until its last item.
    call: Option<ModelCall>,
    /// Whether the caller has left and the stream is read in the background.
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
    pub(crate) fn new(
        stream: BoxStream<'static, Result<T, E>>,
        fold: Box<dyn FoldReply<T>>,
        turn: Turn,
        call: Option<ModelCall>,
    ) -> Self {
        if let Some(call) = &call {
            call.streams();
        }
        let phase = Phase::Open { turn, broken: false };
        Self { recording: Some(Recording { stream, fold, phase, call, detached: false }), held: None }
    }
}

impl<T: Send + 'static, E: Send + 'static> Recording<T, E> {
    /// Asks for the next item, within the span of the call.
    fn poll_item(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, E>>> {
        let Some(call) = &mut self.call else { return self.stream.poll_next_unpin(context) };
        let item = {
            let _entered = call.called_in().enter();
            ready!(self.stream.poll_next_unpin(context))
        };
        if matches!(item, Some(Ok(_))) {
            call.has_item();
        }
        Poll::Ready(item)
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
                telemetry::fail(turn.span(), kind);
                if let Some(call) = self.call.take() {
                    call.interrupted(kind, &self.fold.reply());
                }
                self.interrupted(turn).map_or(Phase::Ended, Phase::Ending)
            }
            ending => ending,
        };
    }

    /// What is left to store of a turn whose reply broke off.
    fn interrupted(&self, turn: Turn) -> Option<Commit> {
        let kept = match turn.on_interruption() {
            OnInterruption::KeepText => self.fold.partial(),
            OnInterruption::Discard | OnInterruption::Detach => None,
        };
        match kept {
            Some(reply) => Some(turn.commit(reply)),
            None => {
                let unreadable = self.fold.reply().unreadable;
                turn.end(unreadable.map_or(NotStored::Interrupted, NotStored::UnreadableReply));
                None
            }
        }
    }

    /// Whether it goes on without the caller, until its reply is complete. A stream that is dropped in the background, as its
    /// runtime shuts down, is not detached once more.
    fn detaches(&self) -> bool {
        match &self.phase {
            Phase::Open { turn, broken: false } => turn.on_interruption() == OnInterruption::Detach && !self.detached,
            Phase::Open { .. } | Phase::Complete(_) | Phase::Ending(_) | Phase::Ended => false,
        }
    }

    /// Goes on without the caller. A commit that is dropped here is not done yet and hands itself to the spawner.
    fn leave(mut self) {
        let stays = self.detaches();
        if let Some(call) = self.call.take_if(|_| !stays) {
            let reply = self.fold.reply();
            // Of a complete reply nothing is missing that anybody waits for.
            if matches!(self.phase, Phase::Complete(_)) { call.ended(&reply) } else { call.left(&reply) }
        }
        match mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Open { turn, broken: false } if stays => {
                let engine = turn.engine().clone();
                let phase = Phase::Open { turn, broken: false };
                let rest = Self { phase, detached: true, ..self };
                engine.detach(RecordedStream { recording: Some(rest), held: None });
            }
            Phase::Open { turn, .. } => drop(self.interrupted(turn)),
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
        let Self { recording, held } = &mut *self;
        let Some(recording) = recording else { return Poll::Ready(None) };
        loop {
            match &mut recording.phase {
                Phase::Open { .. } | Phase::Complete(_) => match ready!(recording.poll_item(context)) {
                    None => recording.end(),
                    Some(item) => match recording.observe(&item) {
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
        if let Some(recording) = self.recording.take() {
            recording.leave();
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
