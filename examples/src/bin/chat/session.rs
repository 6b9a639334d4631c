//! One conversation with the model.

use std::{
    io::{Write as _, stdout},
    sync::Arc,
};

use async_openai::{
    config::Config,
    types::chat::{
        ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage, ChatCompletionRequestUserMessage,
        CreateChatCompletionRequest,
    },
};
use examples::Provider;
use futures_util::StreamExt as _;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, Engine, HistoryStore, HistoryStoreExt as _,
    InConversation, NotStored, Outcome,
};
use tower_chat_history_openai::{ChatStreamService, OpenAi};

const INSTRUCTIONS: &str = "You are a friendly assistant. Answer in a sentence or two.";

pub(crate) struct Session {
    chat: ChatHistory<ChatStreamService<Arc<dyn Config>>, OpenAi>,
    store: Arc<dyn HistoryStore>,
    id: ConversationId,
    model: String,
}

/// How an answer came.
pub(crate) enum Answer {
    Whole,
    /// It was shown, but something is to be said about it.
    Broken(String),
}

impl Session {
    pub(crate) fn new(store: Arc<dyn HistoryStore>, provider: &Provider, id: ConversationId) -> Self {
        let layer = ChatHistoryLayer::new(Arc::clone(&store), OpenAi::new());
        let chat = layer.layer(ChatStreamService::new(provider.client.clone()));
        Self { chat, store, id, model: provider.model.clone() }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.chat.engine()
    }

    /// Sends one line and prints the reply as it comes. The history is the layer's affair.
    pub(crate) async fn ask(&mut self, text: &str) -> Result<Answer, BoxError> {
        let system = ChatCompletionRequestSystemMessage { content: INSTRUCTIONS.into(), name: None };
        let user = ChatCompletionRequestUserMessage { content: text.into(), name: None };
        let messages: Vec<ChatCompletionRequestMessage> = vec![system.into(), user.into()];
        let request = CreateChatCompletionRequest {
            model: self.model.clone(),
            messages,
            ..CreateChatCompletionRequest::default()
        };
        let (call, report) = InConversation::new(self.id.clone(), request).with_report();

        let mut stream = self.chat.ready().await?.call(call).await?;
        while let Some(chunk) = stream.next().await {
            for choice in chunk?.choices {
                print!("{}", choice.delta.content.or(choice.delta.refusal).unwrap_or_default());
            }
            stdout().flush()?;
        }
        println!();

        let report = report.await;
        Ok(match report.as_ref().map(|report| &report.outcome) {
            Some(Outcome::NotStored(NotStored::Interrupted)) => Answer::Broken("the reply broke off; not saved".into()),
            Some(Outcome::Failed(error)) => Answer::Broken(format!("not saved: {error}")),
            _ => Answer::Whole,
        })
    }

    /// Prints the log: every message as it was stored.
    pub(crate) async fn print_history(&self) -> Result<Answer, BoxError> {
        for message in self.store.conversation(&self.id).messages().await? {
            println!("{}: {}", message.role(), message.text());
        }
        Ok(Answer::Whole)
    }

    pub(crate) async fn delete(&self) -> Result<Answer, BoxError> {
        self.store.conversation(&self.id).clear().await?;
        println!("Forgotten.");
        Ok(Answer::Whole)
    }
}
