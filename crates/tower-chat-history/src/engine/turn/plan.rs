//! Planning a call: counting its prompt, and deciding which messages are sent and stored.

use tower_chat_history_core::{CompactionVersion, Cut, Epoch, Expect, Message, Revision, Seq};
use tracing::Instrument as _;

use super::{
    super::{count::fit_budget, recall::RecallResult},
    call::Call,
    history::LoadedHistory,
};
use crate::{
    context::{
        budget::{CallLimits, Correction, ModelLimits, WindowSource},
        plan::{CallBudget, History, LoadedWindow, Plan, PlanInput, TranscriptError, forms_to_count, plan_prompt},
    },
    error::HistoryError,
    policy::OnConflict,
    report::{HistoryStatus, TranslationReport, TurnTokens},
    telemetry::{PromptSizes, TrimStep},
};

/// A call whose prompt and append are planned, with the facts about its history that its append and its report need.
/// The loaded exchanges can then be dropped.
pub(super) struct PlannedTurn {
    pub(super) plan: Plan,
    /// The sizes for the report. Here, the size of the summary is that of the summary in the prompt. In the plan's
    /// budget, it is the number of tokens that are reserved for a summary.
    pub(super) tokens: Option<TurnTokens>,
    /// The source of the context window.
    pub(super) context_window: WindowSource,
    /// The messages that are shown again before the input.
    pub(super) recall: Option<RecallResult>,
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
    /// The provider that is called, or that made the newest reply.
    pub(super) provider: Option<String>,
    /// The tokens of the newest prompt in the window that the provider has counted, by the counter and by the provider.
    pub(super) previous_prompt: Option<(u64, u64)>,
    /// The position of the log's next exchange, if the log could be loaded.
    pub(super) next: Option<Seq>,
    /// The revision of the log that was loaded.
    pub(super) revision: Option<Revision>,
    pub(super) expect: Expect,
    /// The epoch after which the conversation must not have been erased.
    pub(super) since: Option<Epoch>,
    /// The version of the compaction that a new one replaces.
    pub(super) compaction: CompactionVersion,
    /// The cut that a new one replaces, if there is a new one.
    pub(super) replaced: Option<Box<Cut>>,
    /// True if the new cut has a [pending summary](Self::hold_summary).
    has_pending_summary: bool,
}

/// Counts the prompt, and plans which messages are sent, within the span of this step.
pub(super) async fn plan_turn(call: &Call, loaded: &LoadedHistory) -> Result<Box<PlannedTurn>, HistoryError> {
    let step = TrimStep::of(&call.span, call.counting.counter_name().map(|name| &**name));
    let planned = PlannedTurn::of(call, loaded).instrument(step.span().clone()).await;
    step.ended(planned.as_ref().map(|planned| PromptSizes {
        tokens: planned.tokens.as_ref(),
        messages: planned.plan.fit.window.len().saturating_add(call.input.len()),
        evicted_messages: planned.plan.fit.evicted.messages,
    }));
    planned
}

impl PlannedTurn {
    /// Plans for the context window that the conversation has learned, if there is one. It may be wrong, so it fails no
    /// call: if the prompt doesn't fit, what has to be sent is sent.
    async fn of(call: &Call, loaded: &LoadedHistory) -> Result<Box<Self>, HistoryError> {
        let window = call.learned.window();
        match Self::within(call, loaded, window).await {
            Err(HistoryError::DoesNotFit(error)) if window.is_some() => {
                let reserve = call.request.max_output.map_or(0, u64::from).max(error.reply_reserve);
                let needed = (error.parts.total() / 2 * 3).saturating_add(reserve).saturating_add(64);
                let needed = u32::try_from(needed).unwrap_or(u32::MAX);
                Box::pin(Self::within(call, loaded, Some(needed))).await
            }
            planned => planned,
        }
    }

    /// Plans for a context window of at most this size, in tokens.
    async fn within(call: &Call, loaded: &LoadedHistory, at_most: Option<u32>) -> Result<Box<Self>, HistoryError> {
        let options = call.options();
        let history = loaded.history();
        let summary = match history.summary() {
            Some(summary) => Some(call.summary_message(&summary.text)?),
            None => None,
        };

        // Count the prompt. Without a budget, three rules still apply: watermarks in messages or turns, the clearing of
        // tool results, and old reasoning, whose size is reported.
        let (context_window, mut model) = options.context.budget.window(&call.request);
        if let Some(tokens) = at_most {
            model = Some(model.map_or(ModelLimits::new(tokens), |model| model.at_most(tokens)));
        }
        let limits = model.map(|model| options.context.budget.limits_in(model, &call.request));
        let has_rules = options.context.watermarks.count_messages_or_turns()
            || options.context.clear_results.is_some()
            || options.context.old_reasoning.is_some();
        let mut counted = CountedPrompt::default();
        if let Some(limits) = limits.or_else(|| has_rules.then_some(CallLimits::NONE)) {
            counted = CountedPrompt::of(call, history, summary.as_ref(), limits).await?;
        }
        let CountedPrompt { budget, overcount, summary_tokens } = counted;

        // Plan which messages are sent.
        let limit = budget.map(|budget| budget.limit()).filter(|limit| *limit < u64::MAX);
        let stores = loaded.window.is_some() && !loaded.is_pinned && !call.stores_nothing();
        let cost = |message: &Message| call.counting.message(message);
        let mut plan = plan_prompt(&PlanInput {
            summary: summary.as_ref(),
            summary_tokens,
            instead: call.instead(),
            limit: options.context.load_limit,
            on_open_turn: options.policies.on_open_turn,
            overcount,
            recall_reserve: options.recall.as_ref().map(|recall| recall.reserve(limit)),
            recalls_others: options.recall.as_ref().is_some_and(|recall| recall.covers_others(&call.conversation)),
            conditions: call.conditions(),
            budget: budget.map(|budget| fit_budget(budget, options, stores, &cost)),
            ..PlanInput::new(history, &call.input)
        })?;
        if loaded.is_repaired && !call.stores_nothing() {
            let mut repaired = loaded.stored_cut().unwrap_or_default();
            repaired.encrypted_from = history.cut().map_or(Seq::FIRST, |cut| cut.encrypted_from);
            plan.fit.cut.get_or_insert(repaired);
        }

        let window = loaded.window.as_ref();
        // Tool results are stored even after a conflict, because their calls would otherwise stay open.
        let rejects_others = options.policies.on_conflict == OnConflict::Reject && plan.continues.is_none();
        Ok(Box::new(Self {
            tokens: plan.budget.map(|budget| tokens(budget, &plan)),
            context_window,
            recall: None,
            status: loaded.status,
            messages: loaded.messages,
            is_truncated: window.is_some_and(|window| window.truncated),
            is_abridged: history.is_abridged(),
            has_gap: history.has_gap(),
            turns: options.summaries.as_ref().map(|_| history.turns()),
            mismatch: loaded.mismatch,
            translation: loaded.translations.as_ref().and_then(|translations| translations.report(&plan.fit.sent)),
            provider: call.provider(window),
            previous_prompt: window.and_then(|window| previous_prompt(call, window)),
            next: history.next(),
            revision: window.map(|window| window.revision),
            expect: history.expect(rejects_others),
            since: history.since(),
            compaction: window.map(|window| window.version).unwrap_or_default(),
            replaced: plan.fit.cut.as_ref().and_then(|_| loaded.stored_cut()).map(Box::new),
            has_pending_summary: false,
            plan,
        }))
    }

    /// Makes this the plan of a call with a pending summary: a summary of the whole window that the call has made.
    /// `cut` has it, `replaced` is the stored cut, and `before` is the plan without the summary.
    ///
    /// The summary cannot be stored yet, because a window must start at a stored exchange, and the first exchange after
    /// the summary is that of this call. So the call is planned as if the summary were stored, and the cut is stored
    /// with the call's exchange, on the [condition](Self::expect_with_summary) that this is the log's next one. If it
    /// is not, the exchange is stored alone, and the summary after it.
    pub(super) fn hold_summary(&mut self, cut: Cut, replaced: Option<&Cut>, before: &Plan) {
        // The open calls that the input abandons are in the window, which the summary has replaced.
        self.plan.superseded = before.superseded;
        self.plan.fit.cut = Some(cut);
        self.replaced = replaced.cloned().map(Box::new);
        self.has_pending_summary = true;
    }

    /// Returns the cut with the pending summary, if there is one.
    pub(super) fn pending_summary(&self) -> Option<&Cut> {
        self.plan.fit.cut.as_ref().filter(|_| self.has_pending_summary)
    }

    /// Returns the condition under which the exchange is stored with a pending summary, or else the one under which it
    /// is stored.
    pub(super) fn expect_with_summary(&self) -> Expect {
        match self.revision {
            Some(revision) if self.has_pending_summary => Expect::Exactly(revision),
            _ => self.expect,
        }
    }
}

/// Returns the tokens of the window's newest prompt, by the counter and by the provider, if its reader is that of this
/// call.
fn previous_prompt(call: &Call, window: &LoadedWindow) -> Option<(u64, u64)> {
    let newest = &window.exchanges.last()?.exchange;
    let made_by = newest.provenance.as_ref()?;
    if made_by.origin != call.origin || made_by.host != call.request.host {
        return None;
    }
    Some((made_by.tokens?, newest.usage?.input_tokens))
}

/// The budget of a call whose prompt is counted.
#[derive(Default)]
struct CountedPrompt {
    /// The budget, if there is one.
    budget: Option<CallBudget>,
    /// The tokens that the counter counts and the provider does not, at the beginning of the prompt.
    overcount: u64,
    summary_tokens: u64,
}

impl CountedPrompt {
    async fn of(
        call: &Call,
        history: History<'_>,
        summary: Option<&Message>,
        limits: CallLimits,
    ) -> Result<Self, HistoryError> {
        let options = call.options();
        // The window's messages are counted here too, so that the plan finds each count.
        let forms = forms_to_count(history.exchanges(), call.conditions());
        let window = history.messages().chain(summary).chain(&forms);
        let mut sizes = call.counting.prompt(&call.request, window, &call.input).await;
        sizes.head = sizes.head.saturating_add(call.reader.head_overhead(&call.counting));

        let correction = call.calibration_key().map_or(Correction::NONE, |key| {
            let positions = history.cut().map(|cut| cut.positions).unwrap_or_default();
            call.parts.calibration.correction(key, call.prompt_start(positions))
        });
        let (limits, overcount) = options.context.budget.corrected(limits, correction);

        // Room is reserved for the next summary. Otherwise a part of the window would have to be left out as soon as
        // that summary is stored.
        let summary_tokens = summary.map_or(0, |summary| call.summary_tokens(summary));
        let room = match &options.summaries {
            Some(summaries) => call.summary_frame()?.saturating_add(summaries.options.max_tokens.into()),
            None => 0,
        };
        sizes.summary = summary_tokens.max(room);
        Ok(Self { budget: Some(CallBudget { limits, sizes }), overcount, summary_tokens })
    }
}

/// Returns the sizes for the report: those of the messages that are sent, without unused reserves.
fn tokens(budget: CallBudget, plan: &Plan) -> TurnTokens {
    let CallBudget { limits, sizes: mut prompt } = budget;
    prompt.window = plan.fit.tokens;
    prompt.summary = plan.summary_tokens;
    prompt.recalled = 0;
    TurnTokens {
        prompt,
        limit: budget.limit().saturating_add(plan.raised_by),
        reply_reserve: limits.reserve,
        reply_limit: plan.fit.reply.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        evicted_messages: plan.fit.evicted.messages,
        evicted_tokens: plan.fit.evicted.tokens,
        trimming: plan.fit.trimming,
        reasoning_saved: plan.fit.thoughts.saved,
        reasoning_sent_again: plan.fit.thoughts.sent_again,
        cached_prefix: None,
        compacted: plan.fit.cut.is_some(),
        for_this_call: plan.fit.for_this_call,
        calibration: limits.factor(plan.raised_by),
        reported: None,
        cut_by_server: false,
    }
}
