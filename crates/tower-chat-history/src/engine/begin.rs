//! The way to a turn: wait for one's own writes, load, plan.

use tokio::runtime::Handle;
use tower_chat_history_core::{Compact, ExchangeId, Expect, Loaded, Message, Recorded, Window};
use tracing::{Instrument as _, Span};

use super::{
    Engine, Turn, TurnInput,
    basis::Basis,
    call::{Call, Planned, Seen},
    ending::Ending,
    input::Stored,
    last_seen::Sighting,
    queue::QueuePermit,
    transcript,
    turn::{Begun, Target},
};
use crate::{
    HistoryError, HistoryStatus, NotStored, OnConflict, OnLoadFailure, OnTranscriptMismatch, Outcome,
    budget::{Limits, TrimReason},
    error_chain::chain,
    plan::{Given, Plan, Refused, plan},
    report::TurnReport,
    summary::Summaries,
    telemetry::{self, Decided},
    tokens::TokenCounter as _,
};

impl Engine {
    /// Begins a turn: loads the conversation and decides what is sent.
    ///
    /// Saves of this conversation that are still pending in this process are finished first, so a turn sees the one before
    /// it. The load is bounded by the [load limit](crate::HistoryOptions::load_limit).
    ///
    /// # Errors
    ///
    /// Before the model is called: when there is no input or it does not fit the conversation
    /// ([`HistoryError::Input`]), when what the caller resends is not the log's end ([`HistoryError::Transcript`]), when the
    /// prompt does not fit the budget ([`HistoryError::DoesNotFit`]), when the exchange id is recorded already
    /// ([`HistoryError::AlreadyRecorded`]), when the history cannot be loaded, or when the conversation's queue is full or
    /// slow.
    pub async fn begin(&self, input: TurnInput) -> Result<Turn, HistoryError> {
        self.begin_releasing(input, || {}).await
    }

    /// The same, for a caller that holds something of the model's service. `release` lets go of it before this call
    /// waits for another call, a save or a summary: those may need it, or what needs it may have to wait for this call.
    pub(crate) async fn begin_releasing(
        &self,
        input: TurnInput,
        mut release: impl FnMut() + Send,
    ) -> Result<Turn, HistoryError> {
        let span = self.recorder().turn(&input.conversation);
        let beginning = self.recorder().beginning(&span);
        let begun = self.begin_within(input, &mut release, &span).instrument(span.clone()).await;
        match &begun {
            Ok(_) => beginning.begun(),
            Err(error) => beginning.refused(error),
        }
        begun
    }

    async fn begin_within(
        &self,
        input: TurnInput,
        release: &mut (impl FnMut() + Send),
        span: &Span,
    ) -> Result<Turn, HistoryError> {
        let call = Call::new(self, input, span.clone())?;
        let permit = self.wait(&call.conversation, &call.span, release).await?;
        let mut seen = self.look(&call).await?;
        if let (HistoryStatus::Absent, Some(key)) = (seen.history, call.calibration) {
            self.shared.calibration.forget(key);
        }
        let since_last = seen.window.as_ref().and_then(|now| self.shared.last_seen.since(&call.conversation, now));
        let looked = seen.window.as_ref().map(Sighting::of_window);
        let mut planned = self.decide(&call, &seen).await?;
        self.summarize_before(&call, &mut seen, &mut planned, release).await?;
        // A summary that is made for this call is not stored yet.
        let known = if planned.made.is_some() { looked } else { seen.window.as_ref().map(Sighting::of_window) };
        if let Some(known) = known {
            self.shared.last_seen.saw(&call.conversation, known);
        }
        let mut turn = self.turn(call, &seen, planned, permit);
        turn.note_since_last(since_last);
        Ok(turn)
    }

    /// Loads the conversation.
    pub(super) async fn look(&self, call: &Call) -> Result<Seen, HistoryError> {
        let policy = self.options();
        let loaded = self.load(&call.conversation, self.window_or(call.exchange.as_ref()), &call.span).await;
        let (history, window) = match loaded {
            Ok(Loaded::AlreadyRecorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
            Ok(Loaded::Window(window)) => (HistoryStatus::Loaded, Some(window)),
            // Nothing was named as known, so `Unchanged` says no more than that there is nothing to load.
            Ok(Loaded::Absent | Loaded::Unchanged) => (HistoryStatus::Absent, None),
            Err(failure) => {
                let error = HistoryError::from(failure);
                let (kind, cause) = (error.kind(), chain(&error).to_string());
                if policy.on_load_failure == OnLoadFailure::Fail {
                    tracing::warn!(error.type = kind, error = cause, "a call fails: its history could not be loaded");
                    return Err(error);
                }
                tracing::warn!(error.type = kind, error = cause, "calling the model without history: it could not be loaded");
                (HistoryStatus::Unavailable, None)
            }
        };
        // Where there is no history to compare with, what the caller resent is the best there is.
        let (mut resent, mut mismatch) = (Vec::new(), None);
        match (history, policy.on_transcript_mismatch) {
            (HistoryStatus::Unavailable, _) => resent = Recorded::log(call.transcript.clone()),
            (_, OnTranscriptMismatch::Fail) => transcript::check(&call.transcript, window.as_ref())?,
            (_, OnTranscriptMismatch::TrustLog) => {
                mismatch = transcript::check(&call.transcript, window.as_ref()).err();
            }
        }
        let loaded = window.iter().flat_map(|window| &window.exchanges);
        let loaded = loaded.map(|recorded| recorded.exchange.messages.len()).sum();
        Ok(Seen { history, window, resent, loaded, mismatch })
    }

    /// Counts, and decides what is sent.
    pub(super) async fn decide(&self, call: &Call, seen: &Seen) -> Result<Planned, HistoryError> {
        let span = telemetry::trim(&call.span, call.counting.name().map(|name| &**name));
        let planned = self.decide_within(call, seen).instrument(span.clone()).await;
        let decided = planned.as_ref().map(|planned| Decided {
            tokens: planned.tokens.as_ref(),
            messages: planned.plan.fit.window.len().saturating_add(call.input.len()),
            evicted_messages: planned.plan.fit.evicted.messages,
        });
        telemetry::trimmed(&span, decided);
        planned
    }

    async fn decide_within(&self, call: &Call, seen: &Seen) -> Result<Planned, HistoryError> {
        let policy = self.options();
        let ratio = call.calibration.map_or(1.0, |key| self.shared.calibration.ratio(key));
        let limits = policy.budget.limits(&call.request, ratio);
        // Watermarks that count messages hold without a budget too, and what was cleared stays cleared.
        let needs_none = policy.watermarks.count_messages_or_turns() || policy.clear_results.is_some();
        let limits = limits.or_else(|| needs_none.then_some(Limits::NONE));
        let summary = seen.summary().map(|summary| policy.summary_format.message(&summary.text));
        let mut basis = None;
        let mut summary_size = 0;
        if let Some(limits) = limits {
            let log: Vec<Message> = seen.messages().chain(&summary).cloned().collect();
            let runtime = Handle::try_current().ok();
            let mut parts = call.counting.prompt(&call.request, &log, &call.input, runtime.as_ref()).await;
            summary_size = summary.as_ref().map_or(0, |summary| call.counting.message(summary));
            // Room is kept for the summary to come, or the window would have to give way to it.
            let room = |summaries: &Summaries| {
                let frame = call.counting.message(&policy.summary_format.message(""));
                frame.saturating_add(summaries.max_tokens.into())
            };
            parts.summary = summary_size.max(policy.summaries.as_ref().map_or(0, room));
            basis = Some(Basis { limits, parts });
        }
        let instead = match &call.keep {
            Stored::Instead(kept) => Some(kept.as_slice()),
            Stored::Exchange | Stored::Nothing => None,
        };
        let stores = seen.window.is_some() && !matches!(call.keep, Stored::Nothing);
        let cost = |message: &Message| call.counting.message(message);
        let plan_with = |basis: Option<Basis>, summary: Option<&Message>| {
            plan(&Given {
                loaded: seen.window.as_ref(),
                resent: &seen.resent,
                summary,
                input: &call.input,
                instead,
                limit: policy.load_limit,
                on_open_turn: policy.on_open_turn,
                fitting: basis.map(|basis| basis.fitting(policy, stores, &cost)),
            })
        };
        let mut plan_within = |basis: &mut Option<Basis>| {
            let mut planned = plan_with(*basis, summary.as_ref());
            // A summary that is not there yet gives way to what has to be sent.
            if let (Err(Refused::DoesNotFit(_)), Some(basis)) = (&planned, &mut *basis) {
                basis.parts.summary = summary_size;
                planned = plan_with(Some(*basis), summary.as_ref());
            }
            // A summary is worth less than the call.
            if let (Err(Refused::DoesNotFit(_)), Some(basis), Some(_)) = (&planned, basis, &summary) {
                basis.parts.summary = 0;
                planned = plan_with(Some(*basis), None);
                if let Ok(plan) = &mut planned {
                    summary_size = 0;
                    plan.fit.trimming.left_out_summary = true;
                    plan.fit.trimming.reason.get_or_insert(TrimReason::Tokens);
                }
            }
            planned
        };
        let corrected = basis;
        let mut planned = plan_within(&mut basis);
        // A factor is worth less than the call too: a call that is refused could never correct it.
        if let (Err(Refused::DoesNotFit(_)), Some(corrected)) = (&planned, corrected)
            && corrected.limits.ratio > 1.0
        {
            basis = Some(Basis { limits: corrected.limits.as_counted(), ..corrected });
            planned = plan_within(&mut basis);
        }
        let plan = planned?;
        let tokens = basis.map(|basis| basis.tokens(&plan.fit, summary_size));
        Ok(Planned { plan, basis, tokens, summary: None, made: None })
    }

    fn turn(&self, call: Call, seen: &Seen, planned: Planned, permit: Option<QueuePermit>) -> Turn {
        let policy = self.options();
        let Planned { plan: Plan { fit, continues, superseded }, basis, mut tokens, summary, made } = planned;
        let window = seen.window.as_ref();
        if let Some(tokens) = tokens.as_mut().filter(|_| self.is_watched(&call)) {
            let messages = fit.window.iter().chain(&call.input);
            let (id, request, sizes) = (&call.conversation, &call.request, tokens.prompt);
            tokens.cached_prefix = self.recorder().cached_prefix(id, request, &sizes, messages, &call.counting);
        }
        let has_caller_id = call.exchange.is_some();
        let report = TurnReport {
            conversation: call.conversation,
            exchange: call.exchange.unwrap_or_else(ExchangeId::generate),
            history: seen.history,
            messages_loaded: seen.loaded,
            messages_sent: fit.window.len() + call.input.len(),
            truncated: window.is_some_and(|window| window.truncated),
            abridged: seen.is_abridged() || fit.evicted.messages > 0 || fit.trimming.is_shortened(),
            streamed: false,
            transcript_mismatch: seen.mismatch,
            superseded_calls: superseded,
            downgraded: 0,
            tokens,
            context_window: policy.budget.window(&call.request).0,
            summary,
            since_last: None,
            outcome: Outcome::NotStored(NotStored::Abandoned),
        };
        let target = Target {
            expect: expect(policy.on_conflict, seen.history, window, continues.is_some()),
            next: seen.next(),
            has_caller_id,
            continues,
            compact: fit.cut.map(|cut| Compact {
                profile: policy.profile.clone(),
                replaces: window.map(Window::compaction_version).unwrap_or_default(),
                cut,
            }),
        };
        let window_len = fit.window.len();
        let mut context = fit.window;
        context.extend(call.input);
        let ending = Ending { engine: self.clone(), report, handle: call.report, permit, told: false, span: call.span };
        Turn::new(Begun {
            context,
            window_len,
            choices: call.choices,
            request: call.request,
            call: None,
            counting: call.counting,
            calibration: call.calibration,
            basis,
            has_gap: seen.has_gap(),
            turns: seen.turns(),
            made,
            keep: call.keep,
            target,
            ending,
        })
    }

    /// Whether anybody sees what is only told.
    fn is_watched(&self, call: &Call) -> bool {
        !call.span.is_disabled() || call.report.is_some() || self.options().on_turn.is_some() || cfg!(feature = "otel")
    }
}

/// What the append must expect of the log, given what was seen of it.
fn expect(policy: OnConflict, history: HistoryStatus, window: Option<&Window>, continues: bool) -> Expect {
    let reject = policy == OnConflict::Reject && !continues;
    match (window, history) {
        (Some(window), _) if reject => Expect::Exactly(window.revision),
        (Some(window), _) => Expect::AnyIn(window.revision.incarnation()),
        (None, HistoryStatus::Absent) if reject => Expect::Absent,
        (None, _) => Expect::AnyOrCreate,
    }
}
