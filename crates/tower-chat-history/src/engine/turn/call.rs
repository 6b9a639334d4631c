//! The call of a turn: its input, its options, and its token counter.

use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tower_chat_history_core::{
    ConversationId, Dialect, DialectName, Digest, ExchangeId, Message, Metadata, Origin, Positions,
};
use tracing::Span;

use super::{
    super::{
        count::{Counting, estimate},
        parts::{Parts, runtime},
        translate::Reader,
    },
    reader::PromptReader,
    remedy::LearnedFacts,
};
use crate::{
    call::{CallOptions, ReadBy, Stored, TurnInput},
    context::{
        RequestInfo,
        bridge::{UNDERSTOOD, constant_reply},
        budget::{CalibrationKey, PromptStart},
        plan::{Conditions, LoadedWindow},
    },
    error::HistoryError,
    options::HistoryOptions,
    report::ReportSender,
};

/// A call's input and options, with its token counter.
pub(super) struct Call {
    pub(super) parts: Arc<Parts>,
    pub(super) conversation: ConversationId,
    /// The id that the caller chose.
    pub(super) exchange: Option<ExchangeId>,
    pub(super) transcript: Vec<Message>,
    pub(super) input: Vec<Message>,
    pub(super) dialect: &'static dyn Dialect,
    pub(super) choices: usize,
    pub(super) read_by: ReadBy,
    /// The runtime that finishes the turn if its caller leaves.
    pub(super) runtime: Handle,
    pub(super) request: RequestInfo,
    /// The digest of the request's head, tools and response format.
    head: Digest,
    /// The provider that is called.
    pub(super) origin: Origin,
    /// The reader of the prompt.
    pub(super) reader: PromptReader,
    /// The facts that the conversation has learned about the reader.
    pub(super) learned: LearnedFacts,
    pub(super) counting: Counting,
    /// Computed when it is first needed. Holds `None` if counts are not calibrated.
    calibration_key: OnceLock<Option<CalibrationKey>>,
    pub(super) stored: Stored,
    pub(super) metadata: Option<Metadata>,
    pub(super) report: Option<ReportSender>,
    /// The turn's span.
    pub(super) span: Span,
}

impl Call {
    pub(super) fn new(parts: Arc<Parts>, input: TurnInput, span: Span) -> Result<Self, HistoryError> {
        let dialect = input.check()?;
        let TurnInput { conversation, transcript, input, dialect: _, choices, read_by, request, counter, options } =
            input;
        let CallOptions { exchange, few_shot_messages: _, metadata, stored, report } = options;
        let runtime = runtime()?;

        let counter = parts.options().context.token_counter.clone().or(counter);
        let counter = counter.unwrap_or_else(|| estimate(request.model.as_deref()));
        let counting = Counting::new(&parts.counts, counter);

        let mut origin = parts.options().origin.clone();
        origin.provider = origin.provider.or_else(|| request.origin.provider.clone());
        origin.route = origin.route.or_else(|| request.origin.route.clone());
        origin.account = origin.account.or_else(|| request.origin.account.clone());
        origin.model = origin.model.or_else(|| request.origin.model.clone()).or_else(|| request.model.clone());

        let compat = parts.options().readers.compat(&origin, request.host.as_deref());
        let reader = PromptReader::new(compat, dialect, &request);

        Ok(Self {
            parts,
            conversation,
            exchange,
            transcript,
            input,
            dialect,
            choices,
            read_by,
            runtime,
            head: request.digest(),
            request,
            origin,
            reader,
            learned: LearnedFacts::default(),
            counting,
            calibration_key: OnceLock::new(),
            stored,
            metadata,
            report,
            span,
        })
    }

    pub(super) fn options(&self) -> &HistoryOptions {
        self.parts.options()
    }

    /// Returns `true` if the call stores nothing.
    pub(super) const fn stores_nothing(&self) -> bool {
        matches!(self.stored, Stored::Nothing)
    }

    /// Returns the messages that are stored in place of the input, if there are any.
    pub(super) fn instead(&self) -> Option<&[Message]> {
        match &self.stored {
            Stored::Instead(messages) => Some(messages),
            Stored::Exchange | Stored::Nothing => None,
        }
    }

    /// Returns the conditions under which reasoning may be sent.
    pub(super) fn conditions(&self) -> Conditions<'_> {
        Conditions {
            request: &self.request,
            head: self.head,
            origin: &self.origin,
            compat: &self.reader.compat,
            old_reasoning: self.options().context.old_reasoning,
        }
    }

    /// Returns the dialect and the provider to which exchanges are translated.
    pub(super) const fn translates_to(&self) -> Reader<'_> {
        Reader { dialect: self.dialect, origin: &self.origin }
    }

    /// Returns the beginning of a prompt under this cut. The next prompt has it too, unless it is compacted.
    pub(super) const fn prompt_start(&self, positions: Positions) -> PromptStart {
        PromptStart { positions, request: self.head }
    }

    /// Returns the key of the calibration, or `None` if counts are not calibrated.
    pub(super) fn calibration_key(&self) -> Option<CalibrationKey> {
        *self.calibration_key.get_or_init(|| {
            let is_calibrated = self.options().context.budget.is_calibrated();
            let counter = self.counting.counter_name().filter(|_| is_calibrated)?;
            Some(self.parts.calibration.key(&self.conversation, self.request.model.as_deref(), counter))
        })
    }

    /// Returns the message that contains this summary.
    pub(super) fn summary_message(&self, text: &str) -> Result<Message, HistoryError> {
        let message = self.options().context.summary_format.message_in(self.dialect, text);
        message.map_err(|source| HistoryError::Composed { dialect: DialectName::of(self.dialect), source })
    }

    /// Returns the tokens of a summary's message, and of the constant reply to it.
    pub(super) fn summary_tokens(&self, summary: &Message) -> u64 {
        let reply = constant_reply(summary, UNDERSTOOD);
        self.counting.message(summary).saturating_add(reply.map_or(0, |reply| self.counting.message(&reply)))
    }

    /// Returns the tokens of the text around a summary, and of the constant reply to it.
    pub(super) fn summary_frame(&self) -> Result<u64, HistoryError> {
        Ok(self.summary_tokens(&self.summary_message("")?))
    }

    /// Returns the provider that is called, or, if it is not known, the one that made the newest reply of which the
    /// provider is recorded.
    pub(super) fn provider(&self, window: Option<&LoadedWindow>) -> Option<String> {
        if let Some(provider) = &self.origin.provider {
            return Some(provider.clone());
        }
        let mut newest = window?.exchanges.iter().rev();
        newest.find_map(|recorded| recorded.exchange.provenance.as_ref()?.origin.provider.clone())
    }

    /// Returns `true` if a span, a report handle, a hook or metrics observe the turn.
    pub(super) fn is_observed(&self) -> bool {
        let has_hook = self.options().on_turn.is_some();
        !self.span.is_disabled() || self.report.is_some() || has_hook || cfg!(feature = "otel")
    }
}
