//! A call on its way to a turn: what it asks for, what there is to load, what was decided.

use std::sync::Arc;

use tokio::runtime::Handle;
use tower_chat_history_core::{Compaction, ConversationId, Cut, ExchangeId, Message, Recorded, Seq, Summary, Window};
use tracing::Span;

use super::{
    CallOptions, Engine, RequestInfo, TurnInput,
    basis::Basis,
    count::Counting,
    summaries::{Made, first_uncovered},
};
use crate::{
    budget::CalibrationKey,
    call::Stored,
    error::HistoryError,
    plan::{Plan, TranscriptError, opens_turn},
    report::{HistoryStatus, ReportSender, TurnTokens},
    summary::SummaryReport,
    tokens::{ByteEstimate, TokenCounter as _},
};

/// What a call asks for, made ready.
pub(super) struct Call {
    pub(super) conversation: ConversationId,
    pub(super) exchange: Option<ExchangeId>,
    pub(super) transcript: Vec<Message>,
    pub(super) input: Vec<Message>,
    pub(super) choices: usize,
    pub(super) request: RequestInfo,
    pub(super) counting: Counting,
    /// Under which key counts are corrected. None if they are not.
    pub(super) calibration: Option<CalibrationKey>,
    pub(super) keep: Stored,
    pub(super) report: Option<ReportSender>,
    /// The turn's.
    pub(super) span: Span,
}

impl Call {
    pub(super) fn new(engine: &Engine, input: TurnInput, span: Span) -> Result<Self, HistoryError> {
        input.check()?;
        let TurnInput { conversation, transcript, input, choices, request, counter, options } = input;
        let policy = engine.options();
        if policy.measures_time() && Handle::try_current().is_err() {
            return Err(HistoryError::NoRuntime);
        }
        let counter = policy.token_counter.clone().or(counter).unwrap_or_else(|| Arc::new(ByteEstimate::new()));
        let counting = Counting::new(engine, counter);
        let key = |counter| engine.shared.calibration.key(&conversation, request.model.as_deref(), counter);
        let calibration = counting.name().filter(|_| policy.budget.is_calibrated()).map(|counter| key(counter));
        let CallOptions { exchange, few_shot_messages: _, keep, report } = options;
        Ok(Self {
            conversation,
            exchange,
            transcript,
            input,
            choices,
            request,
            counting,
            calibration,
            keep,
            report,
            span,
        })
    }
}

/// What there was to load.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) history: HistoryStatus,
    pub(super) window: Option<Window>,
    /// What stands for a history that could not be loaded.
    pub(super) resent: Vec<Recorded>,
    /// How many messages there were.
    pub(super) loaded: usize,
    /// Where what the caller resent differs from the log, which stands all the same.
    pub(super) mismatch: Option<TranscriptError>,
}

impl Seen {
    pub(super) fn messages(&self) -> impl Iterator<Item = &Message> {
        let exchanges = self.window.as_ref().map_or(&self.resent, |window| &window.exchanges);
        exchanges.iter().flat_map(|recorded| &recorded.exchange.messages)
    }

    /// Goes on as if this compaction were stored already, and left nothing of the window.
    pub(super) fn starts_empty(&mut self, compaction: Compaction) {
        if let Some(window) = &mut self.window {
            window.exchanges.clear();
            window.compaction = Some(compaction);
        }
    }

    /// The position of the log's next exchange, if it was seen.
    pub(super) fn next(&self) -> Option<Seq> {
        match (&self.window, self.history) {
            (Some(window), _) => Some(window.revision.next()),
            (None, HistoryStatus::Absent) => Some(Seq::FIRST),
            (None, HistoryStatus::Loaded | HistoryStatus::Unavailable) => None,
        }
    }

    /// Whether what was loaded is less than the whole conversation.
    pub(super) fn is_abridged(&self) -> bool {
        self.window.as_ref().is_some_and(|window| {
            let cut = window.compaction.as_ref().map(|compaction| &compaction.cut);
            window.truncated || window.revision.first() > Seq::FIRST || cut.is_some_and(|cut| *cut != Cut::default())
        })
    }

    /// How many turns the window has, with the one that is under way.
    pub(super) fn turns(&self) -> usize {
        let exchanges = self.window.iter().flat_map(|window| &window.exchanges);
        exchanges.filter(|recorded| opens_turn(recorded)).count().saturating_add(1)
    }

    /// Whether something left the window that no summary covers.
    pub(super) fn has_gap(&self) -> bool {
        self.window.as_ref().is_some_and(|window| {
            let cut = window.compaction.as_ref().map(|compaction| &compaction.cut);
            cut.is_some_and(|cut| cut.window_start > first_uncovered(cut, window))
        })
    }

    pub(super) fn summary(&self) -> Option<&Summary> {
        self.window.as_ref()?.compaction.as_ref()?.cut.summary.as_ref()
    }
}

/// What was decided.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) basis: Option<Basis>,
    /// What the report says: of the summary it is the size that is sent; in the basis is the room that there is for one.
    pub(super) tokens: Option<TurnTokens>,
    /// What was done for a summary before.
    pub(super) summary: Option<SummaryReport>,
    /// The summary that is stored with the exchange.
    pub(super) made: Option<Made>,
}
