//! The ways to call the model, each with the history layer.

use std::sync::Arc;

use async_openai::{
    Client,
    config::Config,
    traits::RequestOptionsBuilder as _,
    types::chat::{
        ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
        CreateChatCompletionRequest, CreateChatCompletionStreamResponse,
    },
};
use examples::{HttpApi, HttpClient, HttpProvider, Provider, texts};
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use serde_json::json;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, Engine, InConversation,
    engine::InputMode,
    http::{CONVERSATION_ID, HttpHistory},
    summary::Summarizer,
};
use tower_chat_history_openai::{
    ChatStreamService, OpenAi,
    client::{CONVERSATION_ID as CLIENT_CONVERSATION_ID, OpenAiHistory},
};
use tower_chat_history_test::Replies;

const INSTRUCTIONS: &str = "You are a friendly assistant. Answer in a sentence or two.";

/// The way to call the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Via {
    /// Chat completions: a layer around a service that takes async-openai's request type
    Typed,
    /// Chat completions: a layer inside the async-openai client
    Client,
    /// Anthropic's Messages API: a layer around an HTTP client, without an SDK
    Messages,
    /// OpenAI's Responses API: a layer around an HTTP client, without an SDK
    Responses,
}

impl Via {
    /// Returns the API that is called without an SDK.
    const fn http_api(self) -> Option<HttpApi> {
        match self {
            Self::Typed | Self::Client => None,
            Self::Messages => Some(HttpApi::Messages),
            Self::Responses => Some(HttpApi::Responses),
        }
    }
}

/// The provider of the model.
pub(crate) enum Model {
    OpenAi(Provider),
    Http(HttpProvider),
}

impl Model {
    pub(crate) async fn from_env(via: Via, name: Option<String>, mock: Replies) -> Result<Self, BoxError> {
        Ok(match via.http_api() {
            None => Self::OpenAi(Provider::from_env(name, mock).await?),
            Some(api) => Self::Http(HttpProvider::from_env(api, name, mock).await?),
        })
    }

    pub(crate) fn about(&self) -> &str {
        match self {
            Self::OpenAi(provider) => &provider.about,
            Self::Http(provider) => &provider.about,
        }
    }

    pub(crate) fn summarizer(&self) -> Result<Arc<dyn Summarizer>, BoxError> {
        match self {
            Self::OpenAi(provider) => Ok(provider.summarizer()),
            Self::Http(provider) => provider.summarizer(),
        }
    }

    pub(crate) async fn shutdown(self) {
        match self {
            Self::OpenAi(provider) => provider.shutdown().await,
            Self::Http(provider) => provider.shutdown().await,
        }
    }
}

/// The stack of services: the history layer, and the client in it.
pub(crate) enum Chat {
    Typed(ChatHistory<ChatStreamService<Arc<dyn Config>>, OpenAi>),
    Client(Client<Arc<dyn Config>>),
    Http(ChatHistory<HttpClient, HttpHistory>),
}

impl Chat {
    pub(crate) fn new(via: Via, model: &Model, engine: Engine) -> Result<Self, BoxError> {
        Ok(match model {
            Model::OpenAi(provider) if via == Via::Client => {
                let history = OpenAiHistory::from_engine(engine).input_mode(InputMode::New);
                Self::Client(history.client(Arc::clone(&provider.config)))
            }
            Model::OpenAi(provider) => {
                let layer = ChatHistoryLayer::from_engine(engine, OpenAi::new());
                Self::Typed(layer.layer(ChatStreamService::new(provider.client())))
            }
            Model::Http(provider) => {
                let adapter = HttpHistory::new().input_mode(InputMode::New);
                Self::Http(ChatHistoryLayer::from_engine(engine, adapter).layer(provider.client()?))
            }
        })
    }

    /// Sends one line, and returns the pieces of the reply. The request contains no history: the layer adds it.
    pub(crate) async fn ask(
        &mut self,
        model: &Model,
        id: &ConversationId,
        text: &str,
        max_tokens: u32,
    ) -> Result<BoxStream<'static, Result<String, BoxError>>, BoxError> {
        match (self, model) {
            (Self::Typed(chat), Model::OpenAi(provider)) => {
                let call = InConversation::new(id.clone(), typed_request(provider, text));
                Ok(pieces(chat.ready().await?.call(call).await?).boxed())
            }
            (Self::Client(client), Model::OpenAi(provider)) => {
                let chat = client.chat().header(CLIENT_CONVERSATION_ID, id.as_str())?;
                Ok(pieces(chat.create_stream(typed_request(provider, text)).await?).boxed())
            }
            (Self::Http(chat), Model::Http(provider)) => {
                let input = [json!({ "role": "user", "content": text })];
                let mut body = provider.api.body(&provider.model, INSTRUCTIONS, &input, max_tokens);
                body["stream"] = true.into();

                let mut request = provider.request(&body)?;
                request.headers_mut().insert(CONVERSATION_ID, id.as_str().parse()?);
                Ok(texts(provider.api, chat.clone().oneshot(request).await?).await?.boxed())
            }
            _ => Err("the model has another API than the layer".into()),
        }
    }
}

fn typed_request(provider: &Provider, text: &str) -> CreateChatCompletionRequest {
    let system = ChatCompletionRequestSystemMessage { content: INSTRUCTIONS.into(), name: None };
    let user = ChatCompletionRequestUserMessage { content: text.into(), name: None };
    let messages: Vec<ChatCompletionRequestMessage> = vec![system.into(), user.into()];
    CreateChatCompletionRequest { model: provider.model.clone(), messages, ..CreateChatCompletionRequest::default() }
}

/// Returns the pieces of text in a stream of async-openai.
fn pieces<E: Into<BoxError>>(
    chunks: impl Stream<Item = Result<CreateChatCompletionStreamResponse, E>> + Send + 'static,
) -> impl Stream<Item = Result<String, BoxError>> + Send + 'static {
    chunks.map(|chunk| {
        let choices = chunk.map_err(Into::into)?.choices;
        Ok(choices.into_iter().filter_map(|choice| choice.delta.content.or(choice.delta.refusal)).collect())
    })
}
