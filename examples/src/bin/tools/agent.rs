//! The agent loop: call the model, run the tools that it requests, send the results, until it answers.

use std::sync::Arc;

use async_openai::{
    config::Config,
    types::chat::{
        ChatCompletionMessageToolCall, ChatCompletionMessageToolCalls, ChatCompletionRequestMessage,
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, FunctionCall,
    },
};
use examples::Provider;
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryStore, HistoryStoreExt as _, InConversation,
};
use tower_chat_history_openai::{ChatService, OpenAi};

use crate::toolbox;

/// The maximum number of model calls per question.
const MAX_ROUNDS: usize = 8;

pub(crate) struct Agent {
    chat: ChatHistory<ChatService<Arc<dyn Config>>, OpenAi>,
    store: Arc<dyn HistoryStore>,
    id: ConversationId,
    model: String,
}

pub(crate) enum Ended {
    Answered(String),
    Crashed,
}

pub(crate) fn question(text: &str) -> Vec<ChatCompletionRequestMessage> {
    vec![ChatCompletionRequestUserMessage { content: text.into(), name: None }.into()]
}

impl Agent {
    pub(crate) fn new(store: Arc<dyn HistoryStore>, provider: &Provider, id: ConversationId) -> Self {
        let layer = ChatHistoryLayer::new(Arc::clone(&store), OpenAi::new());
        let chat = layer.layer(ChatService::new(provider.client()));
        Self { chat, store, id, model: provider.model.clone() }
    }

    /// Returns the tool calls to which an earlier process has stored no result.
    pub(crate) async fn open_calls(&self) -> Result<Vec<ChatCompletionMessageToolCall>, BoxError> {
        let calls = self.store.conversation(&self.id).open_calls().await?;
        let call = |call: tower_chat_history::store::ToolCall| ChatCompletionMessageToolCall {
            id: call.id().into(),
            function: FunctionCall { name: call.name().into(), arguments: call.arguments().into() },
        };
        Ok(calls.into_iter().map(call).collect())
    }

    pub(crate) async fn run(
        &mut self,
        mut input: Vec<ChatCompletionRequestMessage>,
        crash: bool,
    ) -> Result<Ended, BoxError> {
        for _ in 0..MAX_ROUNDS {
            let request = CreateChatCompletionRequest {
                model: self.model.clone(),
                messages: input,
                tools: Some(toolbox::descriptions()),
                ..CreateChatCompletionRequest::default()
            };
            let call = InConversation::new(self.id.clone(), request);
            let response = self.chat.ready().await?.call(call).await?;
            let Some(choice) = response.choices.into_iter().next() else {
                return Err("the model returned no choice".into());
            };
            let calls: Vec<_> = choice.message.tool_calls.into_iter().flatten().filter_map(function).collect();
            if calls.is_empty() {
                return Ok(Ended::Answered(choice.message.content.unwrap_or_default()));
            }
            if crash {
                return Ok(Ended::Crashed);
            }
            input = toolbox::run_all(&calls).await;
        }
        Err(format!("the model still requests tools after {MAX_ROUNDS} rounds").into())
    }
}

fn function(call: ChatCompletionMessageToolCalls) -> Option<ChatCompletionMessageToolCall> {
    match call {
        ChatCompletionMessageToolCalls::Function(call) => Some(call),
        ChatCompletionMessageToolCalls::Custom(_) => None,
    }
}
