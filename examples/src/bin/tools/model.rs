//! The model behind its history layer, through one of two APIs.

use std::sync::Arc;

use async_openai::config::Config;
use examples::{HttpClient, HttpProvider, Provider};
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryStore, InConversation,
    http::{CONVERSATION_ID, HttpHistory},
};
use tower_chat_history_openai::{ChatService, OpenAi};

use crate::{agent::Input, messages, toolbox::Call, typed};

pub(crate) enum Model {
    /// Chat completions, with async-openai's types.
    Typed(ChatHistory<ChatService<Arc<dyn Config>>, OpenAi>, Provider),
    /// Anthropic's Messages API, over HTTP.
    Messages(ChatHistory<HttpClient, HttpHistory>, HttpProvider),
}

/// The parts of a reply.
pub(crate) struct Said {
    pub(crate) thinking: Vec<String>,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

impl Model {
    pub(crate) fn typed(store: Arc<dyn HistoryStore>, provider: Provider) -> Self {
        let layer = ChatHistoryLayer::new(store, OpenAi::new());
        Self::Typed(layer.layer(ChatService::new(provider.client())), provider)
    }

    pub(crate) fn messages(store: Arc<dyn HistoryStore>, provider: HttpProvider) -> Result<Self, BoxError> {
        let layer = ChatHistoryLayer::new(store, HttpHistory::new());
        Ok(Self::Messages(layer.layer(provider.client()?), provider))
    }

    /// Sends the new messages only. The layer adds the earlier ones, with their thinking.
    pub(crate) async fn ask(&mut self, id: &ConversationId, input: Input) -> Result<Said, BoxError> {
        match self {
            Self::Typed(chat, provider) => {
                let call = InConversation::new(id.clone(), typed::request(&provider.model, input));
                typed::read(chat.ready().await?.call(call).await?)
            }
            Self::Messages(chat, provider) => {
                let mut request = provider.request(&messages::body(&provider.model, input))?;
                request.headers_mut().insert(CONVERSATION_ID, id.as_str().parse()?);
                messages::read(chat.clone().oneshot(request).await?).await
            }
        }
    }
}
