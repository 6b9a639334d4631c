//! The way to a turn, in steps: wait for the calls and saves ahead, load, plan, summarize.

use std::ops::ControlFlow;

use tracing::{Instrument as _, Span};

use super::{
    Engine, Turn,
    last_seen::Sighting,
    queue::QueuePermit,
    summaries::Job,
    turn::{Call, LoadedHistory, PlannedTurn},
    wait::Ahead,
};
use crate::{call::TurnInput, error::HistoryError, report::SinceLast};

/// A turn on its way. Each [step](Self::step) goes on until the next thing that may take long because of others.
pub(crate) struct Beginning {
    stage: Stage,
    guard: BeginGuard,
}

/// The outcome of a step.
pub(crate) enum Step {
    /// The next step waits for another call, for a save or for a summary. Whoever holds something that these may need (a
    /// permit of the model's service) lets go of it before.
    MustWait(Beginning),
    /// The turn has begun.
    Begun(Turn),
}

enum Stage {
    Asked(Box<(Engine, TurnInput)>),
    Waiting(Box<Call>, Ahead),
    Summarizing(Box<Planned>, Box<Job>),
}

/// A call that is planned, and has its turn in the queue.
struct Planned {
    call: Call,
    permit: Option<QueuePermit>,
    loaded: LoadedHistory,
    turn: PlannedTurn,
    since_last: Option<SinceLast>,
    /// The conversation as it was loaded first.
    sighting: Option<Sighting>,
}

impl Beginning {
    pub(super) fn new(engine: &Engine, input: TurnInput) -> Self {
        let span = engine.recorder().turn(&input.conversation);
        let guard = BeginGuard { engine: engine.clone(), span, is_over: false };
        Self { stage: Stage::Asked(Box::new((engine.clone(), input))), guard }
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
            Self::Asked(asked) => {
                let (engine, input) = *asked;
                (Box::new(Call::new(engine, input, span.clone())?), Ahead::Unknown)
            }
            Self::Waiting(call, ahead) => (call, ahead),
            Self::Summarizing(planned, job) => return Ok(ControlFlow::Break(planned.summarized(*job).await?)),
        };
        let permit = match ahead.step(&call.engine, &call.conversation, &call.span).await? {
            ControlFlow::Continue(ahead) => return Ok(ControlFlow::Continue(Self::Waiting(call, ahead))),
            ControlFlow::Break(permit) => permit,
        };
        let planned = Planned::of(*call, permit).await?;
        let summaries = planned.call.engine.shared.summaries.as_ref();
        let job = summaries.and_then(|summaries| summaries.wanted(&planned.call, &planned.loaded, &planned.turn));
        Ok(match job {
            Some(job) => ControlFlow::Continue(Self::Summarizing(Box::new(planned), Box::new(job))),
            None => ControlFlow::Break(planned.begun()),
        })
    }
}

impl Planned {
    /// Loads the conversation and plans the call.
    async fn of(call: Call, permit: Option<QueuePermit>) -> Result<Self, HistoryError> {
        let loaded = call.load_history().await?;
        let shared = &call.engine.shared;
        if let (true, Some(key)) = (loaded.is_absent(), call.calibration) {
            shared.calibration.forget(key);
        }
        let window = loaded.window.as_ref();
        let since_last = window.and_then(|now| shared.last_seen.since(&call.conversation, now));
        let sighting = window.map(Sighting::of_window);
        let turn = call.plan(&loaded).await?;
        Ok(Self { call, permit, loaded, turn, since_last, sighting })
    }

    /// Gives the call the summary that it should not go on without.
    async fn summarized(mut self, job: Job) -> Result<Turn, HistoryError> {
        if let Some(summaries) = &self.call.engine.shared.summaries {
            summaries.before_call(&self.call, job, &mut self.loaded, &mut self.turn).await?;
        }
        Ok(self.begun())
    }

    fn begun(self) -> Turn {
        let Self { call, permit, loaded, mut turn, since_last, sighting } = self;
        // A summary that is made for this call is not stored yet.
        let now = if turn.pending.is_some() { sighting } else { loaded.window.as_ref().map(Sighting::of_window) };
        if let Some(now) = now {
            call.engine.shared.last_seen.saw(&call.conversation, now);
        }
        turn.history.since_last = since_last;
        Turn::new(call, turn, permit)
    }
}

/// Reports a turn that has not begun. One that is dropped on its way was abandoned: its caller left.
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
