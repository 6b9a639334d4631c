//! The append of a turn's exchange. The timeouts and retries of store calls are in `../store.rs`.

use std::{mem, sync::Arc};

use tower_chat_history_core::{Append, Appended, Cuts, DialectName, Exchange, ExchangeId, StoreError, Usage};

use super::{super::summaries::TurnEnd, state::TurnState};
use crate::{
    call::{Reply, Stored},
    completion::assistant,
    context::{
        budget::UsageReport,
        plan::{self, GrownWindow, SentPrompt},
        tokens::{TokenCounter as _, has_fixed_cost},
    },
    error::{DialectPlace, SaveError, check_dialect},
    report::{NotStored, TurnOutcome},
    telemetry::SaveStep,
};

impl TurnState {
    /// Calibrates the token counts by the usage that the provider reports.
    pub(super) fn learn(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage.filter(|_| self.planned.tokens.is_some()) else { return };
        let is_cut = self.is_cut_silently(usage);
        let Self { call, planned, context, .. } = self;
        let Some(tokens) = &mut planned.tokens else { return };
        tokens.reported = Some(usage.input_tokens);
        tokens.cut_by_server = is_cut;
        if is_cut {
            let reported = usage.input_tokens;
            tracing::warn!(
                reported,
                "the server seems to have cut off the beginning of the prompt: set its context window"
            );
            return;
        }
        let Some(key) = call.calibration_key() else { return };

        // The token count of an attachment is a fixed estimate. If the prompt has attachments, the provider's count
        // does not show the error of the counter.
        if call.request.head.iter().chain(&*context).any(has_fixed_cost) {
            return;
        }

        // The next prompt begins with this one only if the log has its messages.
        let is_estimate = call.counting.is_estimate();
        let is_next = is_estimate && matches!(call.stored, Stored::Exchange);
        let start = is_next.then(|| call.prompt_start(planned.plan.fit.sent_under));
        let counted = tokens.prompt.total();
        let report = UsageReport { counted, reported: usage.input_tokens, is_estimate, start };
        call.parts.calibration.learn(key, report);
    }

    /// Returns the append to make, or the outcome if there is nothing to store.
    pub(super) fn new_append(&mut self, reply: Reply) -> Result<Box<Append>, TurnOutcome> {
        let stored = mem::take(&mut self.call.stored);
        let input = match &stored {
            Stored::Nothing => return Err(TurnOutcome::NotStored(NotStored::Asked)),
            Stored::Instead(messages) => messages.as_slice(),
            Stored::Exchange => self.input(),
        };
        if reply.messages.is_empty() {
            let why = reply.unreadable.map_or(NotStored::NoReply, NotStored::UnreadableReply);
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
            self.exchange = ExchangeId::generate();
            self.has_caller_id = false;
        }
        let mut exchange = Exchange::new(self.exchange.clone(), messages).with_reply_len(reply_len);
        exchange.dialect = DialectName::of(self.call.dialect);
        exchange.continues = self.planned.plan.continues;
        exchange.model = reply.model;
        exchange.finish_reason = reply.finish_reason;
        exchange.usage = reply.usage;
        exchange.incomplete = reply.incomplete;
        exchange.metadata = self.call.metadata.take();
        exchange.recalled = self.planned.recall.as_mut().and_then(|recall| recall.recalled.take());
        let prompt = SentPrompt {
            messages: self.call.reader.without_head(&self.context),
            under: self.planned.plan.fit.sent_under,
            next: self.planned.next,
            tokens: self.planned.tokens.map(|tokens| tokens.prompt.total()),
        };
        exchange.provenance = Some(plan::provenance(self.call.conditions(), prompt));

        let planned = &mut self.planned;
        let mut append = Box::new(Append::new(planned.expect_with_summary(), exchange).since(planned.since));
        if let Some(cut) = &planned.plan.fit.cut {
            let cuts = Cuts::new(cut.clone()).replacing(planned.replaced.take().map(|cut| *cut));
            let profile = self.call.store().profile().clone();
            let compact = cuts.compact(profile, planned.compaction);
            append.compact = Some(compact.map_err(|error| failed(SaveError::Store(StoreError::backend(error))))?);
        }
        Ok(append)
    }

    /// Stores the exchange. Returns what was stored, and `true` if that is the exchange of another call under the same
    /// id.
    pub(super) async fn store_exchange(
        &self,
        append: &mut Append,
        step: SaveStep<'_>,
    ) -> Result<(Appended, bool), TurnOutcome> {
        let tokens = self.call.counting.exchange(&append.exchange.messages).await;
        // Nothing shares the exchange yet, so it is not copied.
        Arc::make_mut(&mut append.exchange).tokens = tokens;

        let mut attempts = 0;
        let mut appended = self.append_with_or_without_summary(append, &mut attempts).await;
        let mut by_other_call = false;
        if appended.as_ref().is_ok_and(|appended| appended.duplicate) {
            let store = self.call.store();
            let is_own = store.is_own(&self.call.conversation, &append.exchange, self.has_caller_id, attempts);
            match Box::pin(is_own).await {
                Ok(is_own) => by_other_call = !is_own,
                Err(error) => appended = Err(error),
            }
        }
        step.ended(appended.as_ref(), by_other_call, self.planned.next, attempts);
        appended.map(|stored| (stored, by_other_call)).map_err(failed)
    }

    /// Appends the exchange with its compaction. If the window of a pending summary starts at the exchange, and another
    /// exchange was stored since the load, it is stored without the summary, because the reply has been paid for.
    async fn append_with_or_without_summary(&self, append: &Append, attempts: &mut u32) -> Result<Appended, SaveError> {
        let store = self.call.store();
        let conversation = &self.call.conversation;
        let next = self.planned.next;
        match store.append(conversation, append, next, attempts).await {
            Err(SaveError::Store(error @ StoreError::Conflict { .. })) if append.expect != self.planned.expect => {
                tracing::warn!(error = %error, "an exchange is stored without its compaction");
                let mut alone = append.alone();
                alone.expect = self.planned.expect;

                // A first attempt that is refused has stored nothing, so no later one has to look for its exchange.
                let refused = if *attempts == 1 { mem::take(attempts) } else { 0 };
                let appended = Box::pin(store.append(conversation, &alone, next, attempts)).await;
                *attempts += refused;
                appended
            }
            result => result,
        }
    }

    /// Returns the data that decide if a summary is due. Returns `None` if the turn continues, because the reply has
    /// tool calls or is paused, if the provider compacted the conversation, or if there is no budget or no summaries.
    pub(super) fn summary_facts(&self, exchange: &Exchange) -> Option<TurnEnd> {
        let Self { call, planned, context, .. } = self;
        let budget = planned.plan.budget?;
        let turns = planned.turns?;
        let reply = exchange.reply();
        if reply.is_empty() || exchange.is_paused() || reply.iter().any(|message| !message.tool_calls().is_empty()) {
            return None;
        }
        if reply.iter().any(|message| message.index().restarts) {
            // The next prompt begins with the reply, so it is much smaller than this one.
            return None;
        }

        // The next plan reserves this room for a summary.
        let mut prompt = planned.tokens?.prompt;
        prompt.summary = budget.sizes.summary;
        let reply_tokens = call.counting.sum(reply);
        Some(TurnEnd {
            budget,
            counting: call.counting.clone(),
            dialect: call.dialect,
            origin: call.origin.clone(),
            media: call.reader.compat.media,
            window: GrownWindow {
                limit: budget.limit(),
                tokens: prompt.total().saturating_add(reply_tokens),
                new_tokens: prompt.input.saturating_add(reply_tokens),
                messages: context.len().saturating_add(reply.len()),
                new_messages: self.input().len().saturating_add(reply.len()),
                turns,
            },
            has_gap: planned.has_gap,
            span: call.span.clone(),
        })
    }
}

fn failed(error: SaveError) -> TurnOutcome {
    tracing::error!(error.type = error.kind(), error = %error, "an exchange could not be stored");
    TurnOutcome::Failed(Arc::new(error))
}
