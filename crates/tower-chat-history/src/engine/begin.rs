//! The way to a turn: wait for one's own writes, load, plan.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;
use tower_chat_history_core::{
    Compact, ConversationId, ExchangeId, Expect, Load, Loaded, Message, Recorded, StoreError, Window,
};

use super::{
    CallOptions, Engine, Turn, TurnInput,
    count::Counting,
    ending::Ending,
    input::Keep,
    queue::QueuePermit,
    timer, transcript,
    turn::{Begun, Target},
};
use crate::{
    History, HistoryError, InputError, NotStored, OnConflict, OnLoadFailure, Outcome,
    budget::{Limits, PromptTokens},
    plan::{Fit, Fitting, Given, Plan, plan},
    report::{TurnReport, TurnTokens},
    tokens::ByteEstimate,
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
    /// exchange id is recorded already ([`HistoryError::AlreadyRecorded`]), when the
    /// history cannot be loaded, or when the conversation's queue is full or slow.
    pub async fn begin(&self, input: TurnInput) -> Result<Turn, HistoryError> {
        let TurnInput { conversation, exchange, transcript, input, choices, request, counter, options } = input;
        if input.is_empty() {
            return Err(InputError::Empty.into());
        }
        let policy = self.options();
        let runtime = Handle::try_current().ok();
        if policy.measures_time() && runtime.is_none() {
            return Err(HistoryError::NoRuntime);
        }
        let permit = self.wait(&conversation, runtime.as_ref()).await?;

        let mut load = Load::new().profile(policy.profile.clone()).limit(policy.load_limit);
        load.exchange = exchange.clone();
        let loaded =
            timer::timeout(runtime.as_ref(), policy.store_timeout, self.store().load(&conversation, load)).await;
        let (history, window) = match loaded
            .map_err(LoadFailure::Timeout)
            .and_then(|loaded| loaded.map_err(LoadFailure::Store))
        {
            Ok(Loaded::AlreadyRecorded(recorded)) => return Err(HistoryError::AlreadyRecorded(recorded)),
            Ok(Loaded::Window(window)) => (History::Loaded, Some(window)),
            // Nothing was named as known, so `Unchanged` says no more than that there is nothing to load.
            Ok(Loaded::Absent | Loaded::Unchanged) => (History::Absent, None),
            Err(error) if policy.on_load_failure == OnLoadFailure::CallWithoutHistory => {
                tracing::warn!(error.type = error.kind(), "calling the model without history: it could not be loaded");
                (History::Unavailable, None)
            }
            Err(error) => return Err(error.into()),
        };

        // Where there is no history to compare with, what the caller resent is the best there is.
        let resent = match history {
            History::Unavailable => Recorded::log(transcript),
            History::Absent | History::Loaded => {
                transcript::check(&transcript, window.as_ref())?;
                Vec::new()
            }
        };
        let instead = match &options.keep {
            Keep::Instead(kept) => Some(kept.as_slice()),
            Keep::Exchange | Keep::Nothing => None,
        };
        let counter = policy.token_counter.clone().or(counter).unwrap_or_else(|| Arc::new(ByteEstimate::new()));
        let counting = Counting::new(self, counter);
        let calibration = self.shared.calibration.ratio();
        let limits = policy.budget.limits(&request, calibration);
        let mut tokens = None;
        if let Some(limits) = limits {
            let exchanges = window.as_ref().map_or(&resent, |window| &window.exchanges);
            let log: Vec<Message> =
                exchanges.iter().flat_map(|recorded| &recorded.exchange.messages).cloned().collect();
            tokens = Some((limits, counting.prompt(&request, &log, &input, runtime.as_ref()).await));
        }
        let cost = |message: &Message| counting.message(message);
        let fitting = tokens.map(|(limits, parts)| Fitting {
            limits,
            marks: policy.marks,
            clear: policy.clear_results.as_ref(),
            trimmer: policy.trimmer.as_deref(),
            stores: window.is_some(),
            parts,
            cost: &cost,
        });
        let (limit, on_open_turn) = (policy.load_limit, policy.on_open_turn);
        let given =
            Given { loaded: window.as_ref(), resent: &resent, input: &input, instead, limit, on_open_turn, fitting };
        let Plan { fit, continues, superseded } = plan(given)?;
        let tokens = tokens.map(|(limits, parts)| turn_tokens(&limits, parts, &fit));

        let report = TurnReport {
            conversation,
            exchange: exchange.unwrap_or_else(ExchangeId::generate),
            history,
            messages_loaded: window.iter().flat_map(|w| &w.exchanges).map(|e| e.exchange.messages.len()).sum(),
            messages_sent: fit.window.len() + input.len(),
            truncated: window.as_ref().is_some_and(|window| window.truncated),
            superseded_calls: superseded,
            downgraded: 0,
            tokens,
            outcome: Outcome::NotStored(NotStored::Abandoned),
        };
        let target = Target {
            expect: expect(policy.on_conflict, history, window.as_ref(), continues.is_some()),
            continues,
            compact: fit.cut.map(|cut| Compact {
                profile: policy.profile.clone(),
                replaces: window.as_ref().map(Window::compaction_version).unwrap_or_default(),
                cut,
            }),
        };
        let window_len = fit.window.len();
        let mut context = fit.window;
        context.extend(input);
        let CallOptions { keep, report: handle } = options;
        let ending = Ending { engine: self.clone(), report, handle, permit, told: false };
        Ok(Turn::new(Begun { context, window_len, choices, counting, keep, target, runtime, ending }))
    }

    /// Waits for this process's pending saves of the conversation, and for its turn in the queue if there is one.
    async fn wait(
        &self,
        conversation: &ConversationId,
        runtime: Option<&Handle>,
    ) -> Result<Option<QueuePermit>, HistoryError> {
        let in_flight = &self.shared.in_flight;
        let OnConflict::Serialize(queue) = self.options().on_conflict else {
            in_flight.saved(conversation).await;
            return Ok(None);
        };
        // Whoever is ahead may be a stream that is complete but no longer polled: its save frees the queue, and only
        // polling it here gets it done. So both are waited for at once.
        let permit = self.shared.queues.wait(conversation, queue, in_flight, runtime).await?;
        in_flight.saved(conversation).await;
        Ok(Some(permit))
    }
}

fn turn_tokens(limits: &Limits, parts: PromptTokens, fit: &Fit) -> TurnTokens {
    TurnTokens {
        prompt: PromptTokens { window: fit.tokens, ..parts },
        limit: limits.beside(limits.reserve),
        reply_reserve: limits.reserve,
        reply_limit: fit.reply.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        evicted_messages: fit.evicted.messages,
        evicted_tokens: fit.evicted.tokens,
        compacted: fit.cut.is_some(),
        for_this_call: fit.for_this_call,
        calibration: limits.ratio,
        reported: None,
    }
}

/// What the append must expect of the log, given what was seen of it.
fn expect(policy: OnConflict, history: History, window: Option<&Window>, continues: bool) -> Expect {
    let reject = policy == OnConflict::Reject && !continues;
    match (window, history) {
        (Some(window), _) if reject => Expect::Exactly(window.revision),
        (Some(window), _) => Expect::AnyIn(window.revision.incarnation()),
        (None, History::Absent) if reject => Expect::Absent,
        (None, _) => Expect::AnyOrCreate,
    }
}

/// A load's failure, before policy.
enum LoadFailure {
    Store(StoreError),
    Timeout(Duration),
}

impl LoadFailure {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::Timeout(_) => "timeout",
        }
    }
}

impl From<LoadFailure> for HistoryError {
    fn from(failure: LoadFailure) -> Self {
        match failure {
            LoadFailure::Store(error) => Self::Load(error),
            LoadFailure::Timeout(after) => Self::LoadTimeout(after),
        }
    }
}
