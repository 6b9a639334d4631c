//! The demo's chat service: whole answers and streams, over one engine.

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

/// One process's worth of the service.
pub(crate) struct Chat {
    whole: ChatHistory<MockChat, OpenAi>,
    streamed: ChatHistory<MockChatStream, OpenAi>,
}

/// A reply that is being streamed, within its request.
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
        whole: &MockLlm,
        streamed: &MockLlm,
        options: HistoryOptions,
    ) -> Self {
        let layer = ChatHistoryLayer::with_options(store, OpenAi::new(), options);
        Self { whole: layer.layer(whole.unary()), streamed: layer.layer(streamed.stream()) }
    }

    /// Asks for a whole answer.
    pub(crate) async fn ask(
        &self,
        request: &Request,
        id: &ConversationId,
        question: &str,
    ) -> Result<Arc<TurnReport>, BoxError> {
        let (_, report) = self.send(request, id, chat_request(vec![user(question)])).await?;
        Ok(report)
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        request: &Request,
        id: &ConversationId,
        chat: CreateChatCompletionRequest,
    ) -> Result<(CreateChatCompletionResponse, Arc<TurnReport>), BoxError> {
        let (call, report) = InConversation::new(id.clone(), chat).with_report();
        let mut whole = self.whole.clone();
        let answered = async { whole.ready().await?.call(call).await };
        let answered = answered.instrument(request.span.clone()).await?;
        Ok((answered, report.await.ok_or("the turn has no report")?))
    }

    /// Asks for a streamed answer and waits for its first chunk.
    pub(crate) async fn stream(
        &self,
        request: Request,
        id: &ConversationId,
        question: &str,
    ) -> Result<Streaming, BoxError> {
        let mut chat = chat_request(vec![user(question)]);
        // Without it, providers do not tell the usage of a stream.
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

    /// Waits until summaries are made.
    pub(crate) async fn rests(&self) -> Result<(), BoxError> {
        Ok(self.engine().drain(Duration::from_secs(30)).await?)
    }

    fn engine(&self) -> &Engine {
        self.whole.engine()
    }
}

impl Streaming {
    /// Reads the rest.
    pub(crate) async fn read(mut self) -> Result<(Request, Arc<TurnReport>), BoxError> {
        let rest = async {
            while let Some(item) = self.stream.next().await {
                item?;
            }
            // The stream's end is the turn's.
            drop(self.stream);
            Ok::<_, BoxError>(())
        };
        rest.instrument(self.request.span.clone()).await?;
        Ok((self.request, self.report.await.ok_or("the turn has no report")?))
    }

    /// Reads a few chunks more, and leaves.
    pub(crate) async fn leave(mut self) -> Result<(Request, Arc<TurnReport>), BoxError> {
        let left = async {
            for _ in 0..4 {
                self.stream.next().await.ok_or("the stream is too short to be left")??;
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

/// A request of these new messages: the instructions stand before them in every call.
pub(crate) fn chat_request(input: Vec<ChatCompletionRequestMessage>) -> CreateChatCompletionRequest {
    let mut messages = vec![ChatCompletionRequestSystemMessage { content: INSTRUCTIONS.into(), name: None }.into()];
    messages.extend(input);
    CreateChatCompletionRequest { model: MODEL.to_owned(), messages, ..CreateChatCompletionRequest::default() }
}

/// A report in short.
pub(crate) fn told(report: &TurnReport) -> String {
    let mut told = format!("{} messages sent, {}", report.messages_sent, report.outcome.kind());
    if let Some(tokens) = report.tokens.filter(|tokens| tokens.trimming.is_needed()) {
        let (before, after) = (tokens.before(), tokens.prompt.total());
        let _ = write!(told, "; trimmed by {}: {before} → {after} tokens", tokens.trimming.strategy());
    }
    if let Some(summary) = &report.summary {
        let tokens = summary.tokens.unwrap_or_default();
        let (messages, before) = (summary.messages, summary.replaced_tokens);
        let _ = write!(told, "; waited for a summary of {messages} messages: {before} → {tokens} tokens");
    }
    told
}
