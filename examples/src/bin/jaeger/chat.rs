//! The demo's chat service: unary replies and streams, over one engine.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use async_openai::types::chat::{
    ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
    ChatCompletionResponseStream, ChatCompletionStreamOptions, CreateChatCompletionRequest,
    CreateChatCompletionResponse,
};
use futures_util::StreamExt as _;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryOptions, HistoryStore, InConversation,
    ReportHandle, TurnReport,
};
use tower_chat_history_openai::OpenAi;
use tower_chat_history_test::{MockChat, MockChatStream, MockLlm};
use tracing::Instrument as _;

use crate::{
    model::{MODEL, Models},
    request::Request,
};

const INSTRUCTIONS: &str = "You help people to plan their holidays. Answer in full sentences.";

/// One process of the service.
pub(crate) struct Chat {
    unary: ChatHistory<MockChat, OpenAi>,
    streamed: ChatHistory<MockChatStream, OpenAi>,
}

/// A streamed reply in progress, with its request.
pub(crate) struct Streaming {
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
        let answered = async { unary.ready().await?.call(call).await };
        let answered = answered.instrument(request.span.clone()).await?;
        Ok((answered, report.await.ok_or("the turn has no report")?))
    }

    /// Asks for a streamed reply and waits for its first chunk.
    pub(crate) async fn stream(
        &self,
        request: Request,
        id: &ConversationId,
        question: &str,
    ) -> Result<Streaming, BoxError> {
        let mut chat = chat_request(vec![user(question)]);
        // Providers report the usage of a stream only if asked to.
        chat.stream_options =
            Some(ChatCompletionStreamOptions { include_usage: Some(true), include_obfuscation: None });
        let (call, report) = InConversation::new(id.clone(), chat).with_report();
        let mut streamed = self.streamed.clone();
        let begun = async {
            let mut stream = streamed.ready().await?.call(call).await?;
            stream.next().await.ok_or("the stream is empty")??;
            Ok::<_, BoxError>(stream)
        };
        let stream = begun.instrument(request.span.clone()).await?;
        Ok(Streaming { request, stream, report })
    }

    /// Waits for the summaries in progress.
    pub(crate) async fn wait_for_summaries(&self) -> Result<(), BoxError> {
        Ok(self.engine().drain(Duration::from_secs(30)).await?)
    }

    fn engine(&self) -> &Engine {
        self.unary.engine()
    }
}

impl Streaming {
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
        let left = async {
            for _ in 0..4 {
                self.stream.next().await.ok_or("the stream ended before it could be dropped")??;
            }
            drop(self.stream);
            Ok::<_, BoxError>(())
        };
        left.instrument(self.request.span.clone()).await?;
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
        let (before, after) = (tokens.before(), tokens.prompt.total());
        let _ = write!(line, "; trimmed ({}) from {before} to {after} tokens", tokens.trimming.strategy());
    }
    if let Some(recall) = report.recall.as_ref().filter(|recall| recall.messages > 0) {
        let _ = write!(line, "; recalled {} messages with {} tokens", recall.messages, recall.tokens);
    }
    if let Some(summary) = &report.summary {
        let tokens = summary.tokens.unwrap_or_default();
        let (messages, before) = (summary.messages, summary.replaced_tokens);
        let _ = write!(line, "; waited for a summary of {messages} messages, from {before} to {tokens} tokens");
    }
    line
}
