//! The end of a turn, which comes once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tracing::Span;

use super::{Engine, queue::QueuePermit};
use crate::report::{NotStored, Outcome, ReportSender, TurnReport};

/// Tells whoever wants to know what became of a turn, and lets the next one in the queue go on. A turn that is dropped
/// without an end was abandoned.
pub(super) struct Ending {
    pub(super) engine: Engine,
    pub(super) report: TurnReport,
    pub(super) handle: Option<ReportSender>,
    /// Held until the exchange is stored or the turn is dropped.
    pub(super) permit: Option<QueuePermit>,
    pub(super) told: bool,
    /// The turn's.
    pub(super) span: Span,
}

impl Ending {
    /// Ends the turn.
    pub(super) fn tell(mut self, outcome: Outcome) -> Arc<TurnReport> {
        let report = self.tell_hook(outcome);
        if let Some(handle) = self.handle.take() {
            handle.send(Arc::clone(&report));
        }
        report
    }

    /// Ends the turn without a reply. The caller's handle hears nothing: the caller has the error, or has left, or tries once
    /// more.
    pub(super) fn give_up(mut self, why: NotStored) {
        self.tell_hook(Outcome::NotStored(why));
    }

    fn tell_hook(&mut self, outcome: Outcome) -> Arc<TurnReport> {
        self.told = true;
        self.permit = None;
        if let Outcome::NotStored(NotStored::UnreadableReply(shape)) = outcome {
            self.engine.shared.unreadable.tell(shape);
        }
        self.report.outcome = outcome;
        let report = Arc::new(self.report.clone());
        self.engine.recorder().ended(&self.span, &report);
        if let Some(hook) = &self.engine.options().on_turn {
            // What the hook does must not change what became of the turn; and this may run in a drop.
            if catch_unwind(AssertUnwindSafe(|| hook(&report))).is_err() {
                tracing::error!("the on_turn hook panicked");
            }
        }
        report
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.told {
            self.tell_hook(Outcome::NotStored(NotStored::Abandoned));
        }
    }
}
