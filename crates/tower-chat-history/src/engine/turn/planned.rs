//! Planning a call: counting its prompt, and deciding which messages are sent and stored.

use tower_chat_history_core::{
    CompactionVersion, Cut, DialectName, Epoch, Expect, Message, Positions, Recalled, Revision, Seq,
};
use tracing::Instrument as _;

use super::{super::recall::RecalledForCall, Call, LoadedHistory};
use crate::{
    call::Stored,
    context::{
        budget::{CallLimits, Correction, PromptStart, WindowSource},
        plan::{self, CallBudget, FitBudget, History, Plan, PlanInput, TranscriptError},
    },
    error::HistoryError,
    options::HistoryOptions,
    policy::OnConflict,
    report::{HistoryStatus, RecallReport, SinceLast, TranslationReport, TurnTokens},
    summary::SummaryReport,
    telemetry::{PromptSizes, TrimStep},
};

/// A call whose prompt and append are planned. It is boxed, because it is moved several times until the turn has begun.
pub(in crate::engine) struct PlannedTurn {
    pub(in crate::engine) plan: Plan,
    /// The sizes for the report. Here, the size of the summary is that of the summary in the prompt. In the plan's
    /// budget, it is the number of tokens that are reserved for a summary.
    pub(super) tokens: Option<TurnTokens>,
    /// The source of the context window.
    pub(super) context_window: WindowSource,
    pub(in crate::engine) history: HistoryFacts,
    /// The summary that the call waited for.
    pub(in crate::engine) summary: Option<SummaryReport>,
    /// The cut with the summary to store with the exchange.
    pub(in crate::engine) pending: Option<Cut>,
    /// The messages that are shown again before the input.
    pub(super) recalled: Option<Recalled>,
    pub(super) recall: Option<RecallReport>,
    /// True if many exchanges before the window are not prepared for recall.
    pub(super) has_unprepared: bool,
}

/// The data about a planned call's history that its append and its report need.
pub(in crate::engine) struct HistoryFacts {
    pub(super) status: HistoryStatus,
    /// The number of messages that were loaded.
    pub(super) messages: usize,
    pub(super) is_truncated: bool,
    /// True if summary and window contain less than the whole conversation.
    pub(super) is_abridged: bool,
    /// True if some exchanges have left the window and no summary covers them.
    pub(super) has_gap: bool,
    /// The number of turns, including the current one. It is only counted if the engine makes summaries.
    pub(super) turns: Option<usize>,
    pub(super) mismatch: Option<TranscriptError>,
    pub(super) translation: Option<TranslationReport>,
    /// The changes of the conversation's compaction since its previous turn in this engine.
    pub(in crate::engine) since_last: Option<SinceLast>,
    /// The provider that is called, or that made the newest reply.
    pub(super) provider: Option<String>,
    /// The position of the log's next exchange, if the log could be loaded.
    pub(super) next: Option<Seq>,
    /// The revision of the log that was loaded.
    pub(super) revision: Option<Revision>,
    /// The start of the window by the stored compaction.
    pub(in crate::engine) window_start: Seq,
    /// True if that start moved after the conversation's previous turn in this engine.
    pub(in crate::engine) window_moved: bool,
    pub(super) expect: Expect,
    /// The epoch after which the conversation must not have been erased.
    pub(super) since: Option<Epoch>,
    /// The version of the compaction that a new one replaces.
    pub(super) compaction: CompactionVersion,
    /// The cut that a new one replaces, if there is a new one.
    pub(in crate::engine) replaced: Option<Box<Cut>>,
}

impl Call {
    /// Counts the prompt, and plans which messages are sent.
    pub(in crate::engine) async fn plan(&self, loaded: &LoadedHistory) -> Result<Box<PlannedTurn>, HistoryError> {
        let step = TrimStep::of(&self.span, self.counting.counter_name().map(|name| &**name));
        let planned = self.plan_within(loaded).instrument(step.span().clone()).await;
        step.ended(planned.as_ref().map(|planned| PromptSizes {
            tokens: planned.tokens.as_ref(),
            messages: planned.plan.fit.window.len().saturating_add(self.input.len()),
            evicted_messages: planned.plan.fit.evicted.messages,
        }));
        planned
    }

    async fn plan_within(&self, loaded: &LoadedHistory) -> Result<Box<PlannedTurn>, HistoryError> {
        let (options, history) = (self.engine.options(), loaded.history());
        let summary = match history.summary() {
            Some(summary) => Some(self.summary_message(&summary.text)?),
            None => None,
        };
        let (context_window, model) = options.context.budget.window(&self.request);
        let limits = model.map(|model| options.context.budget.limits_in(model, &self.request));
        let (budget, overcount) = self.budget(limits, history, summary.as_ref()).await.unzip();
        let summary_tokens = match (&summary, budget) {
            (Some(summary), Some(_)) => self.counting.message(summary),
            (None, _) | (_, None) => 0,
        };
        let cost = |message: &Message| self.counting.message(message);
        // Room is reserved for the next summary. Otherwise a part of the window would have to be left out as soon as
        // that summary is stored.
        let room = match (&options.summaries, budget) {
            (Some(summaries), Some(_)) => self.summary_frame()?.saturating_add(summaries.options.max_tokens.into()),
            _ => 0,
        };
        let budget = budget.map(|mut budget| {
            budget.parts.summary = summary_tokens.max(room);
            budget
        });
        let limit = budget.map(|budget| budget.limits.max_prompt(budget.limits.reserve));
        let limit = limit.filter(|limit| *limit < u64::MAX);
        let stores = loaded.window.is_some() && !loaded.is_pinned && !matches!(self.stored, Stored::Nothing);
        let mut plan = plan::plan(&PlanInput {
            history,
            summary: summary.as_ref(),
            summary_tokens,
            input: &self.input,
            instead: match &self.stored {
                Stored::Instead(messages) => Some(messages.as_slice()),
                Stored::Exchange | Stored::Nothing => None,
            },
            limit: options.context.load_limit,
            on_open_turn: options.policies.on_open_turn,
            overcount: overcount.unwrap_or_default(),
            recall_reserve: options.recall.as_ref().map(|recall| recall.reserve(limit)),
            recalls_others: options.recall.as_ref().is_some_and(|recall| recall.covers_others(&self.conversation)),
            conditions: self.conditions(),
            budget: budget.map(|budget| fit_budget(budget, options, stores, &cost)),
        })?;
        if loaded.is_repaired && !matches!(self.stored, Stored::Nothing) {
            let mut repaired = loaded.stored_cut().unwrap_or_default();
            repaired.encrypted_from = history.cut().map_or(Seq::FIRST, |cut| cut.encrypted_from);
            plan.fit.cut.get_or_insert(repaired);
        }
        let tokens = plan.budget.map(|budget| tokens(budget, &plan));
        let window = loaded.window.as_ref();
        let facts = HistoryFacts {
            status: loaded.status,
            messages: loaded.messages,
            is_truncated: window.is_some_and(|window| window.truncated),
            is_abridged: history.is_abridged(),
            has_gap: history.has_gap(),
            turns: options.summaries.as_ref().map(|_| history.turns()),
            mismatch: loaded.mismatch,
            translation: loaded.translations.as_ref().and_then(|translations| translations.report(&plan.fit.sent)),
            since_last: None,
            provider: self.provider(window),
            next: history.next(),
            revision: window.map(|window| window.revision),
            window_start: Seq::FIRST,
            window_moved: false,
            // Tool results are stored even after a conflict, because their calls would otherwise stay open.
            since: history.since(),
            expect: history.expect(options.policies.on_conflict == OnConflict::Reject && plan.continues.is_none()),
            compaction: window.map(|window| window.version).unwrap_or_default(),
            replaced: plan.fit.cut.as_ref().and_then(|_| loaded.stored_cut()).map(Box::new),
        };
        Ok(Box::new(PlannedTurn {
            plan,
            tokens,
            context_window,
            history: facts,
            summary: None,
            pending: None,
            recalled: None,
            recall: None,
            has_unprepared: false,
        }))
    }

    /// Returns the call's limits with their correction, the sizes of all parts of the prompt except the window and the
    /// summary, and the overcounted tokens.
    async fn budget(
        &self,
        limits: Option<CallLimits>,
        history: History<'_>,
        summary: Option<&Message>,
    ) -> Option<(CallBudget, u64)> {
        let options = self.engine.options();
        // Without a budget, two rules still apply: watermarks in messages or turns, and the clearing of tool results.
        let applies_without =
            options.context.watermarks.count_messages_or_turns() || options.context.clear_results.is_some();
        let limits = limits.or_else(|| applies_without.then_some(CallLimits::NONE))?;
        // The window's messages are counted here too, so that the plan finds each count.
        let window = history.messages().chain(summary);
        let parts = self.counting.prompt(&self.request, window, &self.input).await;
        let correction = self.calibration_key().map_or(Correction::NONE, |key| {
            let positions = history.cut().map(|cut| cut.positions).unwrap_or_default();
            self.engine.shared.calibration.correction(key, self.prompt_start(positions))
        });
        let (limits, overcount) = options.context.budget.corrected(limits, correction);
        Some((CallBudget { limits, parts }, overcount))
    }

    /// Returns the beginning of a prompt under this cut. The next prompt has it too, unless it is compacted.
    pub(super) fn prompt_start(&self, positions: Positions) -> PromptStart {
        PromptStart { positions, request: self.head }
    }

    /// Returns the message that contains this summary.
    fn summary_message(&self, text: &str) -> Result<Message, HistoryError> {
        let message = self.engine.options().context.summary_format.message_in(self.dialect, text);
        message.map_err(|source| HistoryError::Composed { dialect: DialectName::of(self.dialect), source })
    }

    /// Returns the tokens of the text around a summary.
    pub(in crate::engine) fn summary_frame(&self) -> Result<u64, HistoryError> {
        Ok(self.counting.message(&self.summary_message("")?))
    }
}

impl PlannedTurn {
    /// Adds the messages that were recalled for the call.
    pub(in crate::engine) fn add_recalled(&mut self, found: RecalledForCall) {
        let RecalledForCall { recalled, report, has_unprepared } = found;
        if let Some(tokens) = &mut self.tokens {
            tokens.prompt.recalled = report.tokens;
        }
        (self.recalled, self.recall, self.has_unprepared) = (recalled, Some(report), has_unprepared);
    }
}

/// Returns the budget for fitting the window, with the rules of these options.
pub(in crate::engine) fn fit_budget<'a>(
    budget: CallBudget,
    options: &'a HistoryOptions,
    stores: bool,
    cost: &'a dyn Fn(&Message) -> u64,
) -> FitBudget<'a> {
    FitBudget {
        limits: budget.limits,
        watermarks: options.context.watermarks,
        clear: options.context.clear_results.as_ref(),
        trimmer: options.context.trimmer.as_deref(),
        stores,
        parts: budget.parts,
        cost,
    }
}

/// Returns the sizes for the report: those of the messages that are sent, without unused reserves.
fn tokens(budget: CallBudget, plan: &Plan) -> TurnTokens {
    let (CallBudget { limits, parts: mut prompt }, fit) = (budget, &plan.fit);
    (prompt.window, prompt.summary, prompt.recalled) = (fit.tokens, plan.summary_tokens, 0);
    TurnTokens {
        prompt,
        limit: limits.max_prompt(limits.reserve).saturating_add(plan.raised_by),
        reply_reserve: limits.reserve,
        reply_limit: fit.reply.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        evicted_messages: fit.evicted.messages,
        evicted_tokens: fit.evicted.tokens,
        trimming: fit.trimming,
        cached_prefix: None,
        compacted: fit.cut.is_some(),
        for_this_call: fit.for_this_call,
        calibration: limits.factor(plan.raised_by),
        reported: None,
    }
}
