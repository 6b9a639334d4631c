//! The model behind its history layer, through one of two APIs.

use std::sync::Arc;

use async_openai::{
    config::Config,
    types::chat::{
        ChatCompletionMessageToolCalls, ChatCompletionRequestMessage, ChatCompletionRequestToolMessage,
        ChatCompletionRequestUserMessage, ChatCompletionTool, ChatCompletionTools, CreateChatCompletionRequest,
        CreateChatCompletionResponse, FunctionObject,
    },
};
use examples::{HttpClient, HttpProvider, Provider};
use http::Response;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::{Layer as _, Service as _, ServiceExt as _};
use tower_chat_history::{
    BoxError, ChatHistory, ChatHistoryLayer, ConversationId, HistoryStore, InConversation,
    http::{CONVERSATION_ID, HistoryBody, HttpHistory},
};
use tower_chat_history_openai::{ChatService, OpenAi};

use crate::toolbox::{self, Call, CallResult};

pub(crate) enum Model {
    /// Chat completions, with async-openai's types.
    Typed(ChatHistory<ChatService<Arc<dyn Config>>, OpenAi>, Provider),
    /// Anthropic's Messages API, over HTTP.
    Messages(ChatHistory<HttpClient, HttpHistory>, HttpProvider),
}

/// The new messages of a request.
pub(crate) enum Input {
    Question(String),
    Results(Vec<CallResult>),
}

/// The parts of a reply.
#[derive(Default)]
pub(crate) struct Reply {
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
    pub(crate) async fn ask(&mut self, id: &ConversationId, input: Input) -> Result<Reply, BoxError> {
        match self {
            Self::Typed(chat, provider) => {
                let call = InConversation::new(id.clone(), typed_request(&provider.model, input));
                read_typed(chat.ready().await?.call(call).await?)
            }
            Self::Messages(chat, provider) => {
                let mut request = provider.request(&messages_body(&provider.model, input))?;
                request.headers_mut().insert(CONVERSATION_ID, id.as_str().parse()?);
                read_messages(chat.clone().oneshot(request).await?).await
            }
        }
    }
}

/// Returns a request of chat completions, with async-openai's types.
fn typed_request(model: &str, input: Input) -> CreateChatCompletionRequest {
    let messages: Vec<ChatCompletionRequestMessage> = match input {
        Input::Question(text) => vec![ChatCompletionRequestUserMessage { content: text.into(), name: None }.into()],
        Input::Results(results) => results.into_iter().map(tool_message).collect(),
    };
    let function = FunctionObject {
        name: toolbox::WEATHER.into(),
        description: Some(toolbox::DESCRIPTION.into()),
        parameters: Some(toolbox::schema()),
        strict: None,
    };
    CreateChatCompletionRequest {
        model: model.to_owned(),
        messages,
        tools: Some(vec![ChatCompletionTools::Function(ChatCompletionTool { function })]),
        ..CreateChatCompletionRequest::default()
    }
}

fn tool_message(result: CallResult) -> ChatCompletionRequestMessage {
    ChatCompletionRequestToolMessage { content: result.text.into(), tool_call_id: result.id }.into()
}

fn read_typed(response: CreateChatCompletionResponse) -> Result<Reply, BoxError> {
    let choice = response.choices.into_iter().next().ok_or("the model returned no choice")?;

    let mut calls = Vec::new();
    for call in choice.message.tool_calls.into_iter().flatten() {
        if let ChatCompletionMessageToolCalls::Function(call) = call {
            calls.push(Call { id: call.id, name: call.function.name, arguments: call.function.arguments });
        }
    }
    Ok(Reply { thinking: Vec::new(), text: choice.message.content.unwrap_or_default(), calls })
}

/// Returns the body of a request of Anthropic's Messages API, with thinking. All results of a reply's calls are in one
/// message.
fn messages_body(model: &str, input: Input) -> Value {
    let content = match input {
        Input::Question(text) => json!(text),
        Input::Results(results) => results.iter().map(tool_result).collect(),
    };
    let tool =
        json!({ "name": toolbox::WEATHER, "description": toolbox::DESCRIPTION, "input_schema": toolbox::schema() });
    json!({
        "model": model, "max_tokens": 4096, "thinking": { "type": "adaptive" }, "tools": [tool],
        "messages": [{ "role": "user", "content": content }],
    })
}

fn tool_result(result: &CallResult) -> Value {
    json!({
        "type": "tool_result", "tool_use_id": result.id, "content": result.text, "is_error": result.is_error,
    })
}

async fn read_messages(response: Response<HistoryBody>) -> Result<Reply, BoxError> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }

    let message: Value = serde_json::from_slice(&body)?;
    let blocks = message["content"].as_array().ok_or("the model returned no content")?;

    let mut reply = Reply::default();
    for block in blocks {
        match block["type"].as_str() {
            Some("thinking") => reply.thinking.push(text(&block["thinking"])),
            Some("text") => reply.text.push_str(&text(&block["text"])),
            Some("tool_use") => reply.calls.push(Call {
                id: text(&block["id"]),
                name: text(&block["name"]),
                arguments: block["input"].to_string(),
            }),
            _ => {}
        }
    }
    Ok(reply)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
