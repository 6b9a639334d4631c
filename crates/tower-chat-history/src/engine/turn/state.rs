//! The state of a turn that has begun, and its report.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tower_chat_history_core::{ExchangeId, Message, Seq};

use super::{
    super::{last_seen::Changes, queue::QueuePermit},
    call::Call,
    history::LoadedHistory,
    plan::PlannedTurn,
};
use crate::{
    context::bridge::{UNDERSTOOD, constant_reply},
    refusal::Remedy,
    report::{NotStored, SummaryReport, TurnOutcome, TurnReport},
    telemetry::ModelCall,
};

/// The state of a turn. If it is dropped before it is reported, it reports the turn as abandoned.
pub(super) struct TurnState {
    pub(super) call: Box<Call>,
    /// The plan. Its window is in the context.
    pub(super) planned: Box<PlannedTurn>,
    pub(super) changes: Changes,
    /// The summary that the call waited for.
    summary: Option<SummaryReport>,
    /// The history, if the prompt has messages of the log. A [remedy](super::remedy) can change what is sent of it.
    pub(super) loaded: Option<Box<LoadedHistory>>,
    /// The remedies with which the call was repeated.
    pub(super) remedies: Vec<Remedy>,
    /// The position before which encrypted elements were left out because the provider could not read them.
    pub(super) repaired: Option<Seq>,
    /// The summary, if there is one, then the window, the recalled messages, if there are any, and the input, with
    /// constant replies between them.
    pub(super) context: Vec<Message>,
    pub(super) window_len: usize,
    /// The id under which the exchange is stored.
    pub(super) exchange: ExchangeId,
    /// True if the caller chose that id.
    pub(super) has_caller_id: bool,
    /// The model call, while it is in progress.
    pub(super) model_call: Option<ModelCall>,
    pub(super) is_streamed: bool,
    /// The number of messages that the request's types could not represent without loss.
    pub(super) downgraded: usize,
    /// Held until the turn is reported.
    permit: Option<QueuePermit>,
    is_reported: bool,
}

impl TurnState {
    pub(super) fn new(
        mut call: Box<Call>,
        permit: Option<QueuePermit>,
        loaded: LoadedHistory,
        planned: Box<PlannedTurn>,
        changes: Changes,
        summary: Option<SummaryReport>,
    ) -> Box<Self> {
        let has_history = loaded.window.is_some() && !planned.plan.fit.window.is_empty();
        let has_caller_id = call.exchange.is_some();
        let exchange = call.exchange.take().unwrap_or_else(ExchangeId::generate);

        let mut state = Box::new(Self {
            call,
            planned,
            changes,
            summary,
            loaded: has_history.then(|| Box::new(loaded)),
            remedies: Vec::new(),
            repaired: None,
            context: Vec::new(),
            window_len: 0,
            exchange,
            has_caller_id,
            model_call: None,
            is_streamed: false,
            downgraded: 0,
            permit,
            // A panic of a token counter in `fill_context` is reported by the guard of the beginning.
            is_reported: true,
        });
        state.fill_context();
        state.is_reported = false;
        state
    }

    /// Makes the messages to send, from those of the plan, of recall and of the call.
    pub(super) fn fill_context(&mut self) {
        let Self { call, planned, .. } = self;
        let mut context = mem::take(&mut planned.plan.fit.window);
        if let Some(recall) = &planned.recall {
            let mut size = recall.report.tokens;
            if let Some(recalled) = &recall.recalled {
                let reply = constant_reply(&recalled.message, UNDERSTOOD);
                size += reply.as_ref().map_or(0, |reply| call.counting.message(reply));
                context.push(recalled.message.clone());
                context.extend(reply);
            }
            if let Some(tokens) = &mut planned.tokens {
                tokens.prompt.recalled = size;
            }
        }

        call.reader.put_head_into(&mut context, &call.input);

        if let Some(tokens) = planned.tokens.as_mut().filter(|_| call.is_observed()) {
            let messages = context.iter().chain(&call.input);
            let recorder = call.parts.recorder();
            tokens.cached_prefix =
                recorder.cached_prefix(&call.conversation, &call.request, &tokens.prompt, messages, &call.counting);
        }

        self.window_len = context.len();
        context.append(&mut call.input);
        self.context = context;
    }

    /// Returns the input messages.
    pub(super) fn input(&self) -> &[Message] {
        &self.context[self.window_len..]
    }

    /// Returns `true` if the prompt contains less than the whole conversation.
    pub(super) fn is_abridged(&self) -> bool {
        let fit = &self.planned.plan.fit;
        self.planned.is_abridged || fit.evicted.messages > 0 || fit.restarts || fit.trimming.is_shortened()
    }

    /// Releases the queue to the next turn, and reports this turn in its span, in metrics and to the hook.
    pub(super) fn report(&mut self, outcome: TurnOutcome) -> Arc<TurnReport> {
        self.is_reported = true;
        self.permit = None;

        let parts = &self.call.parts;
        if let TurnOutcome::NotStored(NotStored::UnreadableReply(shape)) = outcome {
            parts.unreadable.warn(shape);
        }
        let report = Arc::new(self.report_of(outcome));
        parts.recorder().ended(&self.call.span, &report);
        if let Some(hook) = &parts.options().on_turn {
            // A panic of the hook must not change the turn's outcome, and this function may run in a drop.
            if catch_unwind(AssertUnwindSafe(|| hook(&report))).is_err() {
                tracing::error!("the on_turn hook panicked");
            }
        }
        report
    }

    fn report_of(&self, outcome: TurnOutcome) -> TurnReport {
        let Self { call, planned, .. } = self;
        TurnReport {
            conversation: call.conversation.clone(),
            exchange: self.exchange.clone(),
            history: planned.status,
            messages_loaded: planned.messages,
            messages_sent: self.context.len(),
            truncated: planned.is_truncated,
            abridged: self.is_abridged(),
            streamed: self.is_streamed,
            transcript_mismatch: planned.mismatch,
            superseded_calls: planned.plan.superseded,
            downgraded: self.downgraded,
            remedies: self.remedies.clone(),
            reasoning_left_out: planned.plan.fit.reasoning.left_out,
            head_changed: planned.plan.fit.reasoning.head_changed,
            media_left_out: planned.plan.fit.media.number,
            media_bytes_left_out: planned.plan.fit.media.bytes,
            translation: planned.translation,
            begins_with_compaction: planned.plan.fit.restarts,
            tokens: planned.tokens,
            context_window: planned.context_window,
            recall: planned.recall.as_ref().map(|recall| recall.report.clone()),
            summary: self.summary.clone(),
            since_last: self.changes.since_last,
            outcome,
        }
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
