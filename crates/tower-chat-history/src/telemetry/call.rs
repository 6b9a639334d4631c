//! The span of a model call.

use std::time::Instant;

use tower_chat_history_core::{ConversationId, Message};
use tracing::{Level, Span, field::Empty, info_span, record_all};

use super::{
    CaptureContent, content,
    names::{attributes, events, spans},
    recorder::{Recorder, fail, int},
};
use crate::{call::Reply, context::RequestInfo};

/// A model call in progress, until its reply, or until the last item of a stream. If it is dropped before that, its
/// span records it as cancelled.
#[derive(Debug)]
pub(crate) struct ModelCall {
    span: Span,
    /// The span in which the model is called: the call's span, or the turn's span if the call has none.
    called_in: Span,
    begun: Option<Instant>,
    /// True after the first item of a stream.
    has_chunk: bool,
    content: CaptureContent,
    ended: bool,
}

/// The properties of a model call for its span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallProperties<'a> {
    pub(crate) conversation: Option<&'a ConversationId>,
    pub(crate) request: &'a RequestInfo,
    /// The number of requested choices.
    pub(crate) choices: usize,
    /// The value, in tokens, to which the request's own reply limit is lowered.
    pub(crate) reply_limit: Option<u32>,
    /// The messages that are sent after the request's head.
    pub(crate) context: &'a [Message],
    /// True if the prompt contains less than the whole conversation.
    pub(crate) is_abridged: bool,
}

impl CallProperties<'_> {
    /// Returns the messages that are sent, as content.
    fn input(&self) -> String {
        content::input(self.request.head.iter().chain(self.context))
    }
}

impl Recorder {
    /// Begins the span of a model call, as a child of `within`.
    pub(crate) fn call(&self, within: &Span, call: &CallProperties<'_>) -> ModelCall {
        let content = self.telemetry.content;
        if within.is_disabled() || !self.telemetry.spans || !self.telemetry.chat_span {
            // The client's own spans still belong to the turn.
            let called_in = within.clone();
            return ModelCall { span: Span::none(), called_in, begun: None, has_chunk: false, content, ended: true };
        }

        let request = call.request;
        let model = request.model.as_deref().map(short);
        let max_tokens = request.max_output.map(|own| call.reply_limit.map_or(own, |limit| own.min(limit)));
        let choices = Some(call.choices).filter(|choices| *choices != 1);

        let span = info_span!(
            parent: within,
            spans::CHAT,
            otel.name = model.map(|model| format!("{} {model}", spans::CHAT)),
            otel.kind = "client",
            otel.status_code = Empty,
            { attributes::ERROR_TYPE } = Empty,
            { attributes::OPERATION_NAME } = "chat",
            { attributes::PROVIDER_NAME } = request.provider,
            { attributes::CONVERSATION_ID } = call.conversation.and_then(|id| self.name_of(id)),
            { attributes::CONVERSATION_COMPACTED } = call.is_abridged.then_some(true),
            { attributes::REQUEST_MODEL } = model,
            { attributes::REQUEST_STREAM } = Empty,
            { attributes::REQUEST_MAX_TOKENS } = max_tokens.map(i64::from),
            { attributes::REQUEST_CHOICE_COUNT } = choices.map(int),
            { attributes::REQUEST_TEMPERATURE } = request.temperature,
            { attributes::REQUEST_TOP_P } = request.top_p,
            { attributes::RESPONSE_MODEL } = Empty,
            { attributes::RESPONSE_FINISH_REASONS } = Empty,
            { attributes::RESPONSE_TIME_TO_FIRST_CHUNK } = Empty,
            { attributes::USAGE_INPUT_TOKENS } = Empty,
            { attributes::USAGE_OUTPUT_TOKENS } = Empty,
            { attributes::USAGE_CACHE_READ_INPUT_TOKENS } = Empty,
            { attributes::CALL_OUTCOME } = Empty,
            { attributes::INPUT_MESSAGES } = content.on_span().then(|| call.input()),
            { attributes::OUTPUT_MESSAGES } = Empty,
            { attributes::TOOL_DEFINITIONS } = request.tools.as_deref().filter(|_| content.on_span()),
        );

        if content.as_event() {
            // The event has no message, because a message would be exported as the event's name.
            tracing::event!(
                name: events::OPERATION_DETAILS,
                parent: &span,
                Level::INFO,
                {
                    { attributes::OPERATION_NAME } = "chat",
                    { attributes::INPUT_MESSAGES } = call.input(),
                    { attributes::TOOL_DEFINITIONS } = request.tools.as_deref(),
                }
            );
        }

        let called_in = span.clone();
        ModelCall { span, called_in, begun: Some(Instant::now()), has_chunk: false, content, ended: false }
    }
}

impl ModelCall {
    /// Returns the span in which the model is called.
    pub(crate) const fn called_in(&self) -> &Span {
        &self.called_in
    }

    /// Records that the reply is a stream.
    pub(crate) fn set_streamed(&self) {
        record_all!(self.span, { attributes::REQUEST_STREAM } = true);
    }

    /// Records the arrival of a stream's item. The first one sets the time to the first chunk.
    pub(crate) fn record_item(&mut self) {
        if self.has_chunk {
            return;
        }
        self.has_chunk = true;
        if let Some(begun) = self.begun {
            let seconds = begun.elapsed().as_secs_f64();
            record_all!(self.span, { attributes::RESPONSE_TIME_TO_FIRST_CHUNK } = seconds);
        }
    }

    /// Records the reply, and ends the span now: a span's end is its last exit, so this method enters and exits it
    /// once more.
    pub(crate) fn ended_now(self, reply: &Reply) {
        self.span.in_scope(|| ());
        self.ended(reply);
    }

    /// Records the reply. The end of the span is its last exit before this call.
    pub(crate) fn ended(mut self, reply: &Reply) {
        self.answered(reply, "complete");
    }

    /// Records a reply that broke off: the provider ended it, or the connection failed.
    pub(crate) fn interrupted(mut self, kind: &str, reply: &Reply) {
        self.answered(reply, "interrupted");
        fail(&self.span, kind);
    }

    /// Records that the caller left before the reply was complete.
    pub(crate) fn left(mut self, reply: &Reply) {
        self.answered(reply, "cancelled");
        self.span.in_scope(|| ());
    }

    /// Records a failed call.
    pub(crate) fn failed(mut self, kind: &str) {
        self.ended = true;
        self.span.in_scope(|| ());
        record_all!(self.span, { attributes::CALL_OUTCOME } = "failed");
        fail(&self.span, kind);
    }

    fn answered(&mut self, reply: &Reply, outcome: &str) {
        self.ended = true;
        if self.span.is_disabled() {
            return;
        }

        let has_messages = !reply.messages.is_empty();
        let usage = reply.usage;
        record_all!(
            self.span,
            { attributes::CALL_OUTCOME } = outcome,
            { attributes::RESPONSE_MODEL } = reply.model.as_deref().map(short),
            { attributes::USAGE_INPUT_TOKENS } = usage.map(|usage| int(usage.input_tokens)),
            { attributes::USAGE_OUTPUT_TOKENS } = usage.map(|usage| int(usage.output_tokens)),
            { attributes::USAGE_CACHE_READ_INPUT_TOKENS } = usage.and_then(|usage| usage.cached_input_tokens).map(int),
            { attributes::OUTPUT_MESSAGES } = (has_messages && self.content.on_span()).then(|| content::output(reply)),
        );

        if let Some(reason) = &reply.finish_reason {
            finish_reasons(&self.span, short(reason));
        }

        if has_messages && self.content.as_event() {
            tracing::event!(
                name: events::OPERATION_DETAILS,
                parent: &self.span,
                Level::INFO,
                { { attributes::OPERATION_NAME } = "chat", { attributes::OUTPUT_MESSAGES } = content::output(reply) }
            );
        }
    }
}

/// The most bytes of a text of a caller or a provider: the name of a model, or a finish reason.
const MAX_NAME: usize = 256;

/// Returns the beginning of a text. Names are shorter, so a longer text is not a name.
fn short(text: &str) -> &str {
    if text.len() <= MAX_NAME {
        return text;
    }
    let end = (0..=MAX_NAME).rfind(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

/// Records the reason as a JSON text, because fields of `tracing` cannot hold a list.
#[cfg(not(feature = "otel"))]
fn finish_reasons(span: &Span, reason: &str) {
    let reasons = serde_json::Value::from(vec![reason]).to_string();
    record_all!(span, { attributes::RESPONSE_FINISH_REASONS } = reasons);
}

/// Records the reason as a list, which is the type in OpenTelemetry's conventions.
#[cfg(feature = "otel")]
fn finish_reasons(span: &Span, reason: &str) {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;

    let reasons = opentelemetry::Array::from(vec![opentelemetry::StringValue::from(reason.to_owned())]);
    span.set_attribute(attributes::RESPONSE_FINISH_REASONS, opentelemetry::Value::Array(reasons));
}

impl Drop for ModelCall {
    fn drop(&mut self) {
        if !self.ended {
            record_all!(self.span, { attributes::CALL_OUTCOME } = "cancelled");
            self.span.in_scope(|| ());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_between_two_characters() {
        assert_eq!(short("gpt-5.5"), "gpt-5.5");
        assert_eq!(short(&"x".repeat(MAX_NAME)), "x".repeat(MAX_NAME));
        assert_eq!(short(&"€".repeat(MAX_NAME)), "€".repeat(MAX_NAME / 3));
    }
}
