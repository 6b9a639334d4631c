//! Reporting the end of a turn, once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{Turn, TurnState};
use crate::report::{NotStored, TurnOutcome, TurnReport};

impl Turn {
    /// Ends the turn, reports it, and also sends the report to the caller's handle.
    pub(super) fn ended(mut self, outcome: TurnOutcome) -> Arc<TurnReport> {
        let report = self.0.report(outcome);
        if let Some(handle) = self.0.call.report.take() {
            handle.send(Arc::clone(&report));
        }
        report
    }
}

impl TurnState {
    /// Returns `true` if the prompt contains less than the whole conversation.
    pub(super) fn is_abridged(&self) -> bool {
        let fit = &self.planned.plan.fit;
        self.planned.history.is_abridged || fit.evicted.messages > 0 || fit.restarts || fit.trimming.is_shortened()
    }

    fn report_of(&self, outcome: TurnOutcome) -> TurnReport {
        let Self { call, planned, .. } = self;
        TurnReport {
            conversation: call.conversation.clone(),
            exchange: self.exchange.clone(),
            history: planned.history.status,
            messages_loaded: planned.history.messages,
            messages_sent: self.context.len(),
            truncated: planned.history.is_truncated,
            abridged: self.is_abridged(),
            streamed: self.is_streamed,
            transcript_mismatch: planned.history.mismatch,
            superseded_calls: planned.plan.superseded,
            downgraded: self.downgraded,
            repaired: self.repaired.is_some(),
            reasoning_left_out: planned.plan.fit.reasoning.left_out,
            head_changed: planned.plan.fit.reasoning.head_changed,
            translation: planned.history.translation,
            begins_with_compaction: planned.plan.fit.restarts,
            tokens: planned.tokens,
            context_window: planned.context_window,
            recall: planned.recall.clone(),
            summary: planned.summary.clone(),
            since_last: planned.history.since_last,
            outcome,
        }
    }

    /// Releases the queue to the next turn, and reports this turn in its span, in metrics and to the hook.
    pub(super) fn report(&mut self, outcome: TurnOutcome) -> Arc<TurnReport> {
        self.is_reported = true;
        self.permit = None;
        let engine = &self.call.engine;
        if let TurnOutcome::NotStored(NotStored::UnreadableReply(shape)) = outcome {
            engine.shared.unreadable.warn(shape);
        }
        let report = Arc::new(self.report_of(outcome));
        engine.recorder().ended(&self.call.span, &report);
        if let Some(hook) = &engine.options().on_turn {
            // A panic of the hook must not change the turn's outcome, and this function may run in a drop.
            if catch_unwind(AssertUnwindSafe(|| hook(&report))).is_err() {
                tracing::error!("the on_turn hook panicked");
            }
        }
        report
    }
}

impl Drop for TurnState {
    fn drop(&mut self) {
        // If the model call is still in progress, its span must end before the turn's span.
        drop(self.model_call.take());
        if !self.is_reported {
            self.report(TurnOutcome::NotStored(NotStored::Abandoned));
        }
    }
}
