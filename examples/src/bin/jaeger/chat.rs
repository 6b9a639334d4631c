//! The demo's chat service: unary replies and streams, over one engine, and the requests to it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    ChatCompletionResponseStream, ChatCompletionStreamOptions, CreateChatCompletionRequest,
    CreateChatCompletionResponse,
};
use futures_util::StreamExt as _;
use opentelemetry::trace::TraceContextExt as _;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStore, InConversation,
    ReportHandle, TurnReport,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{MockChat, MockChatStream, MockLlm};
use tracing::{Instrument as _, Span, field::Empty, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::model::{MODEL, Models};

const INSTRUCTIONS: &str = "You help people to plan their holidays. Answer in full sentences.";

/// A request with its span, as a web framework's middleware would create it. Each request is one trace.
pub(crate) struct Request {
    pub(crate) span: Span,
    route: &'static str,
}

impl Request {
    pub(crate) fn post(route: &'static str, shows: &'static str) -> Self {
        let span = info_span!(
            parent: None,
            "request",
            otel.name = format!("POST {route}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = "POST",
            http.route = route,
            http.response.status_code = Empty,
            demo.shows = shows,
        );
        Self { span, route }
    }

    /// Ends the request with this status, and returns a line about it. Other spans of the trace may still be open.
    pub(crate) fn end(self, status: u16) -> String {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        let trace = self.span.context().span().span_context().trace_id();
        format!("POST {:<12}  trace {trace}  {status}", self.route)
    }
}

/// One process of the service.
pub(crate) struct Chat {
    unary: ChatHistory<MockChat, OpenAi>,
    streamed: ChatHistory<MockChatStream, OpenAi>,
}

/// A streamed reply in progress, with its request.
pub(crate) struct StreamedReply {
    pub(crate) request: Request,
    stream: ChatCompletionResponseStream,
    report: ReportHandle,
}

impl Chat {
    pub(crate) fn new(store: impl HistoryStore, models: &Models, options: HistoryOptions) -> Self {
        Self::with_model(store, &models.answering(), &models.streaming(), options)
    }

    pub(crate) fn with_model(
        store: impl HistoryStore,
        unary: &MockLlm,
        streamed: &MockLlm,
        options: HistoryOptions,
    ) -> Self {
        let layer = ChatHistoryLayer::with_options(store, OpenAi::new(), options);
        Self { unary: layer.layer(unary.unary()), streamed: layer.layer(streamed.stream()) }
    }

    /// Asks a question and returns the report of the turn.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        id: &ConversationId,
        question: &str,
    ) -> Result<Arc<TurnReport>, BoxError> {
        let (_, report) = self.send(request, id, chat_request(vec![user(question)])).await?;
        Ok(report)
    }

    /// Sends a request and returns the response with the report.
    pub(crate) async fn send(
        &self,
        request: &Request,
        id: &ConversationId,
        chat: CreateChatCompletionRequest,
    ) -> Result<(CreateChatCompletionResponse, Arc<TurnReport>), BoxError> {
        let (call, report) = InConversation::new(id.clone(), chat).with_report();

        let mut unary = self.unary.clone();
        let response = async { unary.ready().await?.call(call).await };
        let response = response.instrument(request.span.clone()).await?;
        Ok((response, report.await.ok_or("the turn has no report")?))
    }

    /// Asks for a streamed reply and waits for its first chunk.
    pub(crate) async fn stream(
        &self,
        request: Request,
        id: &ConversationId,
        question: &str,
    ) -> Result<StreamedReply, BoxError> {
        let mut chat = chat_request(vec![user(question)]);
        // Providers report the usage of a stream only if asked to.
        chat.stream_options =
            Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
        let (call, report) = InConversation::new(id.clone(), chat).with_report();

        let mut streamed = self.streamed.clone();
        let begin = async {
            let mut stream = streamed.ready().await?.call(call).await?;
            stream.next().await.ok_or("the stream is empty")??;
            Ok::<_, BoxError>(stream)
        };
        let stream = begin.instrument(request.span.clone()).await?;
        Ok(StreamedReply { request, stream, report })
    }

    /// Waits for the summaries in progress.
    pub(crate) async fn wait_for_summaries(&self) -> Result<(), BoxError> {
        Ok(self.engine().drain(Duration::from_secs(30)).await?)
    }

    fn engine(&self) -> &Engine {
        self.unary.engine()
    }
}

impl StreamedReply {
    /// Reads the stream to its end.
    pub(crate) async fn read(mut self) -> Result<(Request, Arc<TurnReport>), BoxError> {
        let rest = async {
            while let Some(item) = self.stream.next().await {
                item?;
            }
            // The turn ends with the stream.
            drop(self.stream);
            Ok::<_, BoxError>(())
        };
        rest.instrument(self.request.span.clone()).await?;
        Ok((self.request, self.report.await.ok_or("the turn has no report")?))
    }

    /// Reads a few more chunks, then drops the stream.
    pub(crate) async fn abandon(mut self) -> Result<(Request, Arc<TurnReport>), BoxError> {
        let part = async {
            for _ in 0..4 {
                self.stream.next().await.ok_or("the stream ended before it could be dropped")??;
            }
            drop(self.stream);
            Ok::<_, BoxError>(())
        };
        part.instrument(self.request.span.clone()).await?;
        Ok((self.request, self.report.await.ok_or("the turn has no report")?))
    }
}

pub(crate) fn user(question: &str) -> ChatCompletionRequestMessage {
    ChatCompletionRequestUserMessage { content: question.into(), name: None }.into()
}

/// Builds a request with these new messages. Every request begins with the instructions.
pub(crate) fn chat_request(input: Vec<ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    let mut messages = vec![ChatCompletionRequestSystemMessage { content: INSTRUCTIONS.into(), name: None }.into()];
    messages.extend(input);
    CreateChatCompletionRequest { model: MODEL.to_owned(), messages, ..CreateChatCompletionRequest::default() }
}

/// Describes a report in one line.
pub(crate) fn describe(report: &TurnReport) -> String {
    let mut line = format!("messages sent: {}, outcome: {}", report.messages_sent, report.outcome.kind());
    if let Some(tokens) = report.tokens.filter(|tokens| tokens.trimming.is_needed()) {
        let before = tokens.before();
        let after = tokens.prompt.total();
        let _ = write!(line, "; trimmed ({}) from {before} to {after} tokens", tokens.trimming.strategy());
    }
    if let Some(recall) = report.recall.as_ref().filter(|recall| recall.messages > 0) {
        let _ = write!(line, "; recalled {} messages with {} tokens", recall.messages, recall.tokens);
    }
    if let Some(summary) = &report.summary {
        let messages = summary.messages;
        let before = summary.replaced_tokens;
        let after = summary.tokens.unwrap_or_default();
        let _ = write!(line, "; waited for a summary of {messages} messages, from {before} to {after} tokens");
    }
    line
}
