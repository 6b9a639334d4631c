//! Calls of a mock server, with an exporter that keeps their spans.

#![allow(dead_code)] // Each test binary uses only some of the functions.

use async_openai::{
    Client,
    config::OpenAIConfig,
    traits::RequestOptionsBuilder as _,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequest},
};
use futures_util::StreamExt as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};
use tower::{Service as _, ServiceExt as _};
use tower_chat_history::{ChatHistoryLayer, ConversationId, InConversation, MemoryStore};
use tower_chat_history_openai::{
    ChatService, ChatStreamService, OpenAi,
    client::{CONVERSATION_ID, OpenAiHistory},
};
use tower_chat_history_test::MockServer;
use tower_layer::Layer as _;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;

pub(crate) fn config(server: &MockServer) -> OpenAIConfig {
    OpenAIConfig::new().with_api_base(server.base_url()).with_api_key("test")
}

pub(crate) fn id() -> ConversationId {
    ConversationId::new(["acme", "user-42"]).unwrap()
}

pub(crate) fn request() -> CreateChatCompletionRequest {
    let messages = vec![ChatCompletionRequestUserMessage::from("u").into()];
    CreateChatCompletionRequest { model: "m".into(), messages, ..Default::default() }
}

pub(crate) struct Traced {
    store: MemoryStore,
    exporter: InMemorySpanExporter,
    provider: SdkTracerProvider,
}

impl Traced {
    /// Sets the subscriber of the whole process, because `tracing` caches for all threads which spans are enabled.
    pub(crate) fn new(propagates: bool) -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans)).unwrap();
        if propagates {
            opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        }
        Self { store: MemoryStore::new(), exporter, provider }
    }

    /// Makes a call through the layer and the unary service.
    pub(crate) async fn unary(&self, server: &MockServer) {
        let service = ChatService::new(Client::with_config(config(server)));
        let mut chat = ChatHistoryLayer::new(self.store.clone(), OpenAi::new()).layer(service);
        let call = async { chat.ready().await.unwrap().call(InConversation::new(id(), request())).await };
        call.instrument(tracing::info_span!("handler")).await.unwrap();
    }

    /// Makes a call through the layer and the streaming service, and reads the stream to its end.
    pub(crate) async fn stream(&self, server: &MockServer) {
        let service = ChatStreamService::new(Client::with_config(config(server)));
        let mut chat = ChatHistoryLayer::new(self.store.clone(), OpenAi::new()).layer(service);
        let call = async { chat.ready().await.unwrap().call(InConversation::new(id(), request())).await };
        let stream = call.instrument(tracing::info_span!("handler")).await.unwrap();
        assert!(stream.all(|chunk| async move { chunk.is_ok() }).await);
    }

    /// Makes a call through the client integration.
    pub(crate) async fn client(&self, server: &MockServer, streamed: bool) {
        let client = OpenAiHistory::new(self.store.clone()).client(config(server));
        let chat = client.chat().header(CONVERSATION_ID, id().to_string()).unwrap();
        let handler = tracing::info_span!("handler");
        if streamed {
            let stream = chat.create_stream(request()).instrument(handler).await.unwrap();
            assert!(stream.all(|chunk| async move { chunk.is_ok() }).await);
        } else {
            chat.create(request()).instrument(handler).await.unwrap();
        }
    }

    /// Returns the spans with this name that have ended, in the order of their ends.
    pub(crate) fn finished(&self, name: &str) -> Vec<SpanData> {
        self.provider.force_flush().unwrap();
        let spans = self.exporter.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| span.name == name).collect()
    }
}

/// Returns an attribute of a span as text.
pub(crate) fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key.as_str() == name)?;
    Some(attribute.value.to_string())
}
