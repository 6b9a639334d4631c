//! The state of a call before it is planned.

use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;
use tower_chat_history_core::{ConversationId, Dialect, Digest, ExchangeId, Message, Metadata, Origin, StoreError};
use tracing::Span;

use super::{
    super::{Engine, count::Counting},
    translate::Called,
};
use crate::{
    call::{CallOptions, ReadBy, Stored, TurnInput},
    context::{
        RequestInfo,
        budget::CalibrationKey,
        plan::{Conditions, LoadedWindow},
        tokens::{ByteEstimate, Estimate, TokenCounter},
    },
    error::HistoryError,
    report::ReportSender,
};

/// A call's input and options, with its token counter.
pub(in crate::engine) struct Call {
    pub(in crate::engine) engine: Engine,
    pub(in crate::engine) conversation: ConversationId,
    /// The id that the caller chose.
    pub(in crate::engine) exchange: Option<ExchangeId>,
    pub(in crate::engine) transcript: Vec<Message>,
    pub(in crate::engine) input: Vec<Message>,
    pub(in crate::engine) dialect: &'static dyn Dialect,
    pub(in crate::engine) choices: usize,
    pub(super) read_by: ReadBy,
    /// The runtime that finishes the turn if its caller leaves.
    pub(super) runtime: Handle,
    pub(in crate::engine) request: RequestInfo,
    /// The digest of the request's head, tools and response format.
    pub(super) head: Digest,
    /// The provider that is called.
    origin: Origin,
    pub(in crate::engine) counting: Counting,
    /// Computed when it is first needed. Holds `None` if counts are not calibrated.
    calibration_key: OnceLock<Option<CalibrationKey>>,
    pub(in crate::engine) stored: Stored,
    pub(super) metadata: Option<Metadata>,
    pub(in crate::engine) report: Option<ReportSender>,
    /// The turn's span.
    pub(in crate::engine) span: Span,
}

impl Call {
    /// Returns the conditions under which reasoning may be sent.
    pub(in crate::engine) const fn conditions(&self) -> Conditions<'_> {
        Conditions { request: &self.request, head: self.head, origin: &self.origin }
    }

    /// Returns the dialect and the provider that are called.
    pub(in crate::engine) const fn called(&self) -> Called<'_> {
        Called { dialect: self.dialect, origin: &self.origin }
    }

    pub(in crate::engine) fn new(engine: Engine, input: TurnInput, span: Span) -> Result<Self, HistoryError> {
        let dialect = input.check()?;
        let TurnInput { conversation, transcript, input, dialect: _, choices, read_by, request, counter, options } =
            input;
        let CallOptions { exchange, few_shot_messages: _, metadata, stored, report } = options;
        let options = engine.options();
        let runtime = runtime()?;
        let counter = options.context.token_counter.clone().or(counter);
        let counter = counter.unwrap_or_else(|| estimate(request.model.as_deref()));
        let counting = Counting::new(&engine.shared.counts, counter);
        let (mut origin, of_request) = (options.origin.clone(), &request.origin);
        origin.provider = origin.provider.or_else(|| of_request.provider.clone());
        origin.route = origin.route.or_else(|| of_request.route.clone());
        origin.account = origin.account.or_else(|| of_request.account.clone());
        origin.model = origin.model.or_else(|| of_request.model.clone()).or_else(|| request.model.clone());
        Ok(Self {
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
            counting,
            calibration_key: OnceLock::new(),
            stored,
            metadata,
            report,
            span,
            engine,
        })
    }

    /// Returns the key of the calibration, or `None` if counts are not calibrated.
    pub(in crate::engine) fn calibration_key(&self) -> Option<CalibrationKey> {
        *self.calibration_key.get_or_init(|| {
            let is_calibrated = self.engine.options().context.budget.is_calibrated();
            let counter = self.counting.counter_name().filter(|_| is_calibrated)?;
            Some(self.engine.shared.calibration.key(&self.conversation, self.request.model.as_deref(), counter))
        })
    }

    /// Returns the provider that is called, or, if it is not known, the one that made the newest reply of which the
    /// provider is recorded.
    pub(super) fn provider(&self, window: Option<&LoadedWindow>) -> Option<String> {
        let recorded = || {
            let mut newest = window?.exchanges.iter().rev();
            newest.find_map(|recorded| recorded.exchange.provenance.as_ref()?.origin.provider.clone())
        };
        self.origin.provider.clone().or_else(recorded)
    }

    /// Returns `true` if a span, a report handle, a hook or metrics observe the turn.
    pub(super) fn is_observed(&self) -> bool {
        let has_hook = self.engine.options().on_turn.is_some();
        !self.span.is_disabled() || self.report.is_some() || has_hook || cfg!(feature = "otel")
    }
}

/// Returns the runtime of the call, or an error if there is none.
pub(in crate::engine) fn runtime() -> Result<Handle, HistoryError> {
    Handle::try_current().map_err(|error| HistoryError::Load(StoreError::backend(error)))
}

/// Returns the estimate for a model for which neither the options nor the integration have a counter.
pub(in crate::engine) fn estimate(model: Option<&str>) -> Arc<dyn TokenCounter> {
    match model.and_then(Estimate::for_model) {
        Some(estimate) => Arc::new(estimate),
        None => Arc::new(ByteEstimate::new()),
    }
}
