//! Storing a turn's exchange: with timeouts, and with retries under the same exchange id.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use tower_chat_history_core::{
    Append, Appended, CompactOutcome, Cuts, DialectName, Exchange, ExchangeId, Expect, Message, StoreError, Usage,
};
use tracing::Instrument as _;

use super::{
    super::{last_seen::CompactionPositions, retention::ExchangeFacts, summaries::FinishedTurn},
    Turn, TurnState,
};
use crate::{
    call::{Reply, Stored},
    completion::assistant,
    context::{
        budget::UsageReport,
        plan::{self, GrownWindow, SentPrompt},
        tokens::{TokenCounter as _, has_fixed_cost},
    },
    error::{DialectPlace, SaveError, check_dialect},
    report::{NotStored, TurnOutcome, TurnReport},
    telemetry::SaveStep,
};

impl Turn {
    /// Stores the exchange and ends the turn. The conversation's next call and a drain poll this, too, so a panic must
    /// not reach them.
    pub(in crate::engine) async fn save(mut self, reply: Reply) -> Arc<TurnReport> {
        let saved = AssertUnwindSafe(self.0.save(reply)).catch_unwind().await;
        self.ended(saved.unwrap_or_else(|_| {
            tracing::error!("a save panicked");
            TurnOutcome::Failed(Arc::new(SaveError::Panicked))
        }))
    }
}

impl TurnState {
    async fn save(&mut self, reply: Reply) -> TurnOutcome {
        self.learn(reply.usage);
        let append = match self.append(reply) {
            Ok(append) => append,
            Err(outcome) => return outcome,
        };
        let step = self.call.engine.recorder().save(&self.call.span, append.exchange.messages.len());
        let span = step.span().clone();
        self.store(append, step).instrument(span).await
    }

    /// Calibrates the token counts by the usage that the provider reports.
    fn learn(&mut self, usage: Option<Usage>) {
        let Self { call, planned, context, .. } = self;
        let (Some(tokens), Some(usage)) = (&mut planned.tokens, usage) else { return };
        tokens.reported = Some(usage.input_tokens);
        let counted = tokens.prompt.total();
        // The token count of an attachment is a fixed estimate. If the prompt has attachments, the provider's count
        // does not show the error of the counter.
        let is_counted = || !call.request.head.iter().chain(&*context).any(has_fixed_cost);
        if let Some(key) = call.calibration_key().filter(|_| is_counted()) {
            // The next prompt begins with this one only if the log has its messages.
            let is_estimate = call.counting.is_estimate();
            let is_next = is_estimate && matches!(call.stored, Stored::Exchange);
            let start = is_next.then(|| call.prompt_start(planned.plan.fit.sent_under));
            let report = UsageReport { counted, reported: usage.input_tokens, is_estimate, start };
            call.engine.shared.calibration.learn(key, report);
        }
    }

    /// Returns the append to make, or the outcome if there is nothing to store.
    fn append(&mut self, reply: Reply) -> Result<Box<Append>, TurnOutcome> {
        let stored = std::mem::take(&mut self.call.stored);
        let input = match &stored {
            Stored::Nothing => return Err(TurnOutcome::NotStored(NotStored::Asked)),
            Stored::Instead(messages) => messages,
            Stored::Exchange => &self.context[self.window_len..],
        };
        let why = reply.unreadable.map_or(NotStored::NoReply, NotStored::UnreadableReply);
        if reply.messages.is_empty() {
            return Err(TurnOutcome::NotStored(why));
        }
        if let Err(error) = check_dialect(self.call.dialect, &reply.messages, DialectPlace::Reply) {
            return Err(failed(error.into()));
        }
        let reply_len = reply.messages.len();
        let mut messages = Vec::with_capacity(input.len() + reply_len);
        messages.extend_from_slice(input);
        messages.extend(reply.messages.into_iter().map(assistant));
        if reply.incomplete {
            // The caller's id stays unused, so a repeated call with this id can still store a complete reply.
            (self.exchange, self.has_caller_id) = (ExchangeId::generate(), false);
        }
        let mut exchange = Exchange::new(self.exchange.clone(), messages).with_reply_len(reply_len);
        exchange.dialect = DialectName::of(self.call.dialect);
        exchange.continues = self.planned.plan.continues;
        exchange.model = reply.model;
        exchange.finish_reason = reply.finish_reason;
        exchange.usage = reply.usage;
        exchange.incomplete = reply.incomplete;
        exchange.metadata = self.call.metadata.take();
        exchange.recalled = self.planned.recalled.take();
        let sent_under = self.planned.plan.fit.sent_under;
        let prompt = SentPrompt {
            messages: &self.context,
            under: sent_under,
            next: self.planned.history.next,
            tokens: self.planned.tokens.map(|tokens| tokens.prompt.total()),
        };
        let provenance = plan::provenance(self.call.conditions(), prompt);
        exchange.provenance = Some(Box::new(provenance));

        let history = &mut self.planned.history;
        let expect = match (&self.planned.pending, history.revision) {
            // The window of the summary starts at this exchange, so no other one may be stored before it.
            (Some(_), Some(revision)) => Expect::Exactly(revision),
            _ => history.expect,
        };
        let mut append = Box::new(Append::new(expect, exchange).since(history.since));
        if let Some(cut) = &self.planned.plan.fit.cut {
            let cuts = Cuts::new(cut.clone()).replacing(history.replaced.take().map(|cut| *cut));
            let profile = self.call.engine.options().context.profile.clone();
            let compact = cuts.compact(profile, history.compaction);
            append.compact = Some(compact.map_err(|error| failed(SaveError::Store(StoreError::backend(error))))?);
        }
        Ok(append)
    }

    /// Stores the exchange. After that it updates the last-seen positions, starts a summary if one is due, and prunes.
    /// The futures of rare steps are boxed, so that other calls do not pay for their size.
    async fn store(&self, mut append: Box<Append>, step: SaveStep<'_>) -> TurnOutcome {
        let (engine, conversation) = (&self.call.engine, &self.call.conversation);
        let tokens = self.call.counting.exchange(&append.exchange.messages).await;
        // Nothing shares the exchange yet, so it is not copied.
        Arc::make_mut(&mut append.exchange).tokens = tokens;
        let exchange = &append.exchange;
        let (continues, incomplete, facts) = (exchange.continues, exchange.incomplete, ExchangeFacts::of(exchange));
        let is_paused = exchange.is_paused();
        let (store, next, mut attempts) = (engine.bounded_store(), self.planned.history.next, 0);
        let mut appended = self.append_with_or_without_summary(&append, &mut attempts).await;
        let mut is_duplicate = false;
        if appended.as_ref().is_ok_and(|appended| appended.duplicate) {
            match Box::pin(store.is_own(conversation, exchange, self.has_caller_id, attempts)).await {
                Ok(is_own) => is_duplicate = !is_own,
                Err(error) => appended = Err(error),
            }
        }
        step.ended(appended.as_ref(), is_duplicate, next, attempts);
        let stored = match appended {
            Ok(stored) => stored,
            Err(error) => return failed(error),
        };
        let loaded = self.planned.history.revision.map(|revision| revision.incarnation());
        if loaded.is_some_and(|loaded| loaded != stored.revision.incarnation()) {
            // The loaded log ended during the turn, by a deletion, an erasure or a truncation, and the new log had the
            // exchange already. The summary and the positions of this turn are of the old log.
            return if is_duplicate {
                TurnOutcome::Duplicate { revision: stored.revision, seq: stored.seq }
            } else {
                TurnOutcome::Stored { revision: stored.revision, seq: stored.seq, moved: false, incomplete }
            };
        }
        let has_cut = matches!(stored.compaction, Some(CompactOutcome::Stored(_))) || stored.duplicate && !is_duplicate;
        let stored_cut = self.planned.plan.fit.cut.as_ref().filter(|_| has_cut);
        let seen = CompactionPositions::of(stored.revision, stored_cut);
        engine.shared.last_seen.update(conversation, seen);
        if let Some(before) = self.repaired.filter(|_| !has_cut) {
            engine.shared.repairs.start(conversation, stored.revision.incarnation(), before);
        }
        // This runs even if the log has the exchange of another call under the same id, because the turn is over in
        // this case too.
        if let Some(summaries) = &engine.shared.summaries {
            if let Some(pending) = &self.planned.pending
                && let Some(cut) = Box::pin(summaries.store_pending(conversation, &stored, pending)).await
            {
                let seen = CompactionPositions::of(stored.revision, Some(&cut));
                engine.shared.last_seen.update(conversation, seen);
            }
            if let Some(finished) = self.finished(exchange.reply()).filter(|_| !is_paused) {
                summaries.after_turn(conversation, finished);
            }
        }
        let (seq, revision) = (stored.seq, engine.retain(conversation, &stored, facts).await);
        if revision != stored.revision {
            engine.shared.last_seen.update(conversation, CompactionPositions::of(revision, None));
        }
        if let Some(recall) = &engine.shared.recall {
            let loaded = self.planned.history.window_start;
            let start = stored_cut.map_or(loaded, |cut| cut.window_start.max(loaded));
            let has_unprepared = self.planned.has_unprepared || recall.is_unfinished(conversation);
            if has_unprepared || self.planned.history.window_moved || start > loaded {
                recall.prepare(conversation, self.call.dialect, revision, start, &self.call.span);
            }
        }
        if is_duplicate {
            return TurnOutcome::Duplicate { revision, seq };
        }
        // Exchanges that were already in the log at the load (partial replies, stored results) do not make the
        // exchange moved.
        let moved = continues.is_some() && next.is_some_and(|next| next != seq);
        TurnOutcome::Stored { revision, seq, moved, incomplete }
    }

    /// Appends the exchange with its compaction. If the window of a pending summary starts at the exchange, and another
    /// exchange was stored since the load, it is stored without the summary, because the reply has been paid for.
    async fn append_with_or_without_summary(&self, append: &Append, attempts: &mut u32) -> Result<Appended, SaveError> {
        let (store, conversation) = (self.call.engine.bounded_store(), &self.call.conversation);
        let (next, expect) = (self.planned.history.next, self.planned.history.expect);
        match store.append(conversation, append, next, attempts).await {
            Err(SaveError::Store(error @ StoreError::Conflict { .. })) if append.expect != expect => {
                tracing::warn!(error = %error, "an exchange is stored without its compaction");
                let mut alone = append.alone();
                alone.expect = expect;

                // A first attempt that is refused has stored nothing, so no later one has to look for its exchange.
                let refused = if *attempts == 1 { std::mem::take(attempts) } else { 0 };
                let appended = Box::pin(store.append(conversation, &alone, next, attempts)).await;
                *attempts += refused;
                appended
            }
            result => result,
        }
    }

    /// Returns the data that decide if a summary is due. Returns `None` if the reply has tool calls, so that the turn
    /// continues, if the provider compacted the conversation, or if there is no budget or no summaries. A turn whose
    /// reply is paused continues, too.
    fn finished(&self, reply: &[Message]) -> Option<FinishedTurn> {
        let Self { call, planned, context, window_len, .. } = self;
        let (budget, turns) = (planned.plan.budget?, planned.history.turns?);
        if reply.iter().any(|message| message.index().restarts) {
            // The next prompt begins with the reply, so it is much smaller than this one.
            return None;
        }
        if reply.is_empty() || reply.iter().any(|message| !message.tool_calls().is_empty()) {
            return None;
        }
        // The next plan reserves this room for a summary.
        let mut prompt = planned.tokens?.prompt;
        prompt.summary = budget.parts.summary;
        let reply_tokens: u64 = reply.iter().map(|message| call.counting.message(message)).sum();
        Some(FinishedTurn {
            budget,
            counting: call.counting.clone(),
            dialect: call.dialect,
            origin: call.conditions().origin.clone(),
            window: GrownWindow {
                limit: budget.limits.max_prompt(budget.limits.reserve),
                tokens: prompt.total().saturating_add(reply_tokens),
                new_tokens: prompt.input.saturating_add(reply_tokens),
                messages: context.len().saturating_add(reply.len()),
                new_messages: context.len().saturating_sub(*window_len).saturating_add(reply.len()),
                turns,
            },
            has_gap: planned.history.has_gap,
            span: call.span.clone(),
        })
    }
}

fn failed(error: SaveError) -> TurnOutcome {
    tracing::error!(error.type = error.kind(), error = %error, "an exchange could not be stored");
    TurnOutcome::Failed(Arc::new(error))
}
