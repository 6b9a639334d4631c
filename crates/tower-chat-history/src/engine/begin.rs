//! Beginning a turn in steps: wait for earlier calls and saves, load the window, plan the prompt, wait for a summary if
//! one is needed, and recall messages.

use std::ops::ControlFlow;

use tracing::{Instrument as _, Span};

use super::{
    Engine, Turn,
    last_seen::CompactionPositions,
    queue::QueuePermit,
    summaries::Job,
    turn::{Call, LoadedHistory, PlannedTurn},
    wait::Ahead,
};
use crate::{call::TurnInput, error::HistoryError};

/// A turn that has not begun yet. Each [step](Self::step) ends before the next wait for another call, a save or a
/// summary.
pub(crate) struct Beginning {
    stage: Stage,
    guard: BeginGuard,
}

/// The outcome of a step.
pub(crate) enum Step {
    /// The next step waits for another call, a save or a summary. If the caller holds a resource that these may need,
    /// such as a permit of the inner service, it must release the resource before the next step.
    MustWait(Beginning),
    /// The turn has begun.
    Begun(Turn),
}

enum Stage {
    New(Box<(Engine, TurnInput)>),
    Waiting(Box<Call>, Ahead),
    Summarizing(Box<Planned>, Box<Job>),
}

/// A planned call, with its permit of the conversation's queue, if there is a queue.
struct Planned {
    call: Box<Call>,
    permit: Option<QueuePermit>,
    loaded: LoadedHistory,
    turn: Box<PlannedTurn>,
    /// The compaction's positions when the conversation was last seen, before this call.
    last_seen: Option<CompactionPositions>,
    /// The compaction's positions at the first load.
    loaded_positions: Option<CompactionPositions>,
}

impl Beginning {
    pub(super) fn new(engine: &Engine, input: TurnInput) -> Self {
        let span = engine.recorder().turn(&input.conversation);
        let guard = BeginGuard { engine: engine.clone(), span, is_over: false };
        Self { stage: Stage::New(Box::new((engine.clone(), input))), guard }
    }

    pub(crate) async fn step(self) -> Result<Step, HistoryError> {
        let Self { stage, mut guard } = self;
        let span = guard.span.clone();
        let step = stage.step(&span).instrument(span.clone()).await;
        match step {
            Ok(ControlFlow::Continue(stage)) => Ok(Step::MustWait(Self { stage, guard })),
            Ok(ControlFlow::Break(turn)) => {
                guard.is_over = true;
                Ok(Step::Begun(turn))
            }
            Err(error) => {
                guard.refused(&error);
                Err(error)
            }
        }
    }
}

impl Stage {
    async fn step(self, span: &Span) -> Result<ControlFlow<Turn, Self>, HistoryError> {
        let (call, ahead) = match self {
            Self::New(new) => {
                let (engine, input) = *new;
                let call = Box::new(Call::new(engine, input, span.clone())?);
                match &call.exchange {
                    // Boxed, so that calls without an id do not pay for the size of this future.
                    Some(exchange) => Box::pin(call.check_named(exchange)).await?,
                    None => call.admit()?,
                }
                (call, Ahead::Unknown)
            }
            Self::Waiting(call, ahead) => (call, ahead),
            Self::Summarizing(planned, job) => {
                // Boxed, so that calls without a summary do not pay for the size of this future.
                let planned = Box::pin(planned.summarized(*job)).await?;
                return Ok(ControlFlow::Break(Box::pin(planned.begun_with_recall()).await));
            }
        };
        let permit = match ahead.step(&call.engine, &call.conversation, &call.span).await? {
            ControlFlow::Continue(ahead) => return Ok(ControlFlow::Continue(Self::Waiting(call, ahead))),
            ControlFlow::Break(permit) => permit,
        };
        let planned = Planned::of(call, permit).await?;
        let summaries = planned.call.engine.shared.summaries.as_ref();
        let job = summaries.and_then(|summaries| summaries.wanted(&planned.call, &planned.loaded, &planned.turn));
        Ok(match job {
            Some(job) => ControlFlow::Continue(Self::Summarizing(Box::new(planned), Box::new(job))),
            None if planned.recalls() => ControlFlow::Break(Box::pin(planned.begun_with_recall()).await),
            None => ControlFlow::Break(planned.begun()),
        })
    }
}

impl Planned {
    /// Loads the conversation and plans the call.
    async fn of(call: Box<Call>, permit: Option<QueuePermit>) -> Result<Self, HistoryError> {
        let loaded = call.load_history().await?;
        if call.exchange.is_some() {
            // A call that is repeated is answered from the log, whatever the limits are.
            call.admit()?;
        }
        let shared = &call.engine.shared;
        if loaded.is_absent()
            && let Some(key) = call.calibration_key()
        {
            shared.calibration.forget(key);
        }
        let last_seen = shared.last_seen.get(&call.conversation);
        let loaded_positions = loaded.window.as_ref().map(CompactionPositions::of_window);
        let turn = call.plan(&loaded).await?;
        call.check_planned(&loaded, &turn).await?;
        Ok(Self { call, permit, loaded, turn, last_seen, loaded_positions })
    }

    /// Makes the summary that the call waits for, and plans the call with it.
    async fn summarized(mut self, job: Job) -> Result<Self, HistoryError> {
        if let Some(summaries) = &self.call.engine.shared.summaries {
            summaries.before_call(&self.call, job, &mut self.loaded, &mut self.turn).await?;
        }
        Ok(self)
    }

    /// Returns `true` if messages may be recalled for the call.
    fn recalls(&self) -> bool {
        self.turn.plan.recallable.is_some()
    }

    /// Recalls messages for the call, if there is something to recall, and begins the turn. The future is large, so
    /// callers box it: calls without recall then do not pay for its size.
    async fn begun_with_recall(mut self) -> Turn {
        if let Some(recall) = &self.call.engine.shared.recall
            && let Some(found) = recall.before_call(&self.call, self.loaded.window.as_ref(), &self.turn.plan).await
        {
            self.turn.add_recalled(found);
        }
        self.begun()
    }

    fn begun(self) -> Turn {
        let Self { call, permit, loaded, mut turn, last_seen, loaded_positions } = self;
        let since_last = loaded_positions.zip(last_seen).and_then(|(now, before)| now.since(before));
        // `loaded` already contains the pending summary, which is not stored yet.
        let now = match turn.pending {
            Some(_) => loaded_positions,
            None => loaded.window.as_ref().map(CompactionPositions::of_window),
        };
        if let Some(now) = now {
            // Nearly all calls find the positions unchanged, which needs no second lookup.
            if last_seen != Some(now) {
                call.engine.shared.last_seen.update(&call.conversation, now);
            }
            turn.history.window_start = now.start();
            // The window was moved by another process, by a summary in the background, or by this call's own summary.
            turn.history.window_moved = since_last.is_some_and(|since| since.evicted_exchanges > 0)
                || loaded_positions.is_some_and(|loaded| loaded.start() < now.start());
        }
        turn.history.since_last = since_last;
        Turn::new(call, turn, permit, loaded)
    }
}

/// Records a turn that does not begin, in its span and in metrics: as refused after an error, or as abandoned if the
/// guard is dropped because the caller has left.
struct BeginGuard {
    engine: Engine,
    span: Span,
    is_over: bool,
}

impl BeginGuard {
    fn refused(&mut self, error: &HistoryError) {
        self.is_over = true;
        self.engine.recorder().not_begun(&self.span, Some(error));
    }
}

impl Drop for BeginGuard {
    fn drop(&mut self) {
        if !self.is_over {
            self.engine.recorder().not_begun(&self.span, None);
        }
    }
}
