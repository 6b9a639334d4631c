//! The spans of a summary and of its model calls.

use std::{borrow::Cow, error::Error, fmt, sync::Arc};

use async_trait::async_trait;
use tower_chat_history_core::{Message, Seq};
use tracing::{Instrument as _, Span, field::Empty, info_span, record_all};

use super::{
    call::CallProperties,
    names::{attributes, spans},
    recorder::{Recorder, fail, int},
};
use crate::{
    call::Reply,
    context::RequestInfo,
    error::BoxError,
    summary::{Summarizer, SummaryReport, SummaryRequest, SummaryResponse},
};

/// Begins the span of a summary of the exchanges from this position on. The end position is recorded later, when it
/// is known.
pub(crate) fn summarize(turn: &Span, from: Seq) -> Span {
    if turn.is_disabled() {
        return Span::none();
    }
    info_span!(
        parent: turn,
        spans::SUMMARIZE,
        otel.kind = "internal",
        otel.status_code = Empty,
        { attributes::ERROR_TYPE } = Empty,
        { attributes::SUMMARY_OUTCOME } = Empty,
        { attributes::SUMMARY_FROM } = int(from.get()),
        { attributes::SUMMARY_TO } = Empty,
        { attributes::SUMMARY_WAITED_FOR } = Empty,
        { attributes::SUMMARY_MESSAGES } = Empty,
        { attributes::TOKENS_BEFORE } = Empty,
        { attributes::TOKENS_AFTER } = Empty,
        { attributes::SUMMARY_CALLS } = Empty,
        { attributes::SUMMARY_INPUT_TOKENS } = Empty,
        { attributes::SUMMARY_OUTPUT_TOKENS } = Empty,
    )
}

impl Recorder {
    /// Records the report of a summary.
    pub(crate) fn summarized(&self, summarize: &Span, report: &SummaryReport) {
        self.metrics.summarized(report);
        if summarize.is_disabled() {
            return;
        }

        record_all!(
            summarize,
            { attributes::SUMMARY_OUTCOME } = report.outcome.kind(),
            { attributes::SUMMARY_TO } = int(report.to.get()),
            { attributes::SUMMARY_WAITED_FOR } = report.waited_for,
            { attributes::SUMMARY_MESSAGES } = int(report.messages),
            { attributes::TOKENS_BEFORE } = int(report.replaced_tokens),
            { attributes::TOKENS_AFTER } = report.tokens.map(i64::from),
            { attributes::SUMMARY_CALLS } = i64::from(report.cost.calls),
            { attributes::SUMMARY_INPUT_TOKENS } = int(report.cost.input_tokens),
            { attributes::SUMMARY_OUTPUT_TOKENS } = int(report.cost.output_tokens),
        );
        if let Some(kind) = report.outcome.error_kind() {
            fail(summarize, kind);
        }
    }

    /// Wraps a summarizer. Its calls then have spans, as children of the current span.
    pub(crate) fn traced(&self, summarizer: &Arc<dyn Summarizer>) -> TracedSummarizer {
        TracedSummarizer { summarizer: Arc::clone(summarizer), recorder: self.clone() }
    }
}

/// A summarizer whose calls have spans.
pub(crate) struct TracedSummarizer {
    summarizer: Arc<dyn Summarizer>,
    recorder: Recorder,
}

#[async_trait]
impl Summarizer for TracedSummarizer {
    fn model(&self) -> Option<&str> {
        self.summarizer.model()
    }

    fn provider(&self) -> Option<&'static str> {
        self.summarizer.provider()
    }

    fn error_type(&self, error: &(dyn Error + 'static)) -> Cow<'static, str> {
        self.summarizer.error_type(error)
    }

    fn is_too_long(&self, error: &(dyn Error + 'static)) -> bool {
        self.summarizer.is_too_long(error)
    }

    async fn summarize(&self, request: SummaryRequest) -> Result<SummaryResponse, BoxError> {
        let mut info = RequestInfo::new();
        info.model = self.summarizer.model().map(str::to_owned);
        info.provider = self.summarizer.provider();
        info.max_output = Some(request.max_tokens);

        // The summarizer makes the prompt, which is not known here. As content, the span therefore has the messages
        // to summarize.
        let call = CallProperties {
            conversation: None,
            request: &info,
            choices: 1,
            reply_limit: None,
            context: &request.messages,
            is_abridged: false,
        };

        let call = self.recorder.call(&Span::current(), &call);
        let summarized = self.summarizer.summarize(request).instrument(call.called_in().clone()).await;
        match &summarized {
            Ok(summarized) => call.ended(&reply(summarized)),
            Err(error) => call.failed(&self.summarizer.error_type(error.as_ref())),
        }
        summarized
    }
}

fn reply(summarized: &SummaryResponse) -> Reply {
    let mut reply = Reply::new(Message::assistant(&summarized.text));
    reply.model.clone_from(&summarized.model);
    reply.usage = summarized.usage;
    reply
}

impl fmt::Debug for TracedSummarizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summarizer.fmt(f)
    }
}
