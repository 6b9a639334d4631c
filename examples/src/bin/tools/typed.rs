//! Requests and replies of chat completions, with async-openai's types.

use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionRequestMessage, ChatCompletionRequestToolMessage,
    ChatCompletionRequestUserMessage, ChatCompletionTool, ChatCompletionTools, CreateChatCompletionRequest,
    CreateChatCompletionResponse, FunctionObject,
};
use tower_chat_history::BoxError;

use crate::{
    agent::Input,
    model::Said,
    toolbox::{self, Call, CallResult},
};

pub(crate) fn request(model: &str, input: Input) -> CreateChatCompletionRequest {
    let messages: Vec<ChatCompletionRequestMessage> = match input {
        Input::Question(text) => vec![ChatCompletionRequestUserMessage { content: text.into(), name: None }.into()],
        Input::Results(results) => results.into_iter().map(result).collect(),
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

fn result(result: CallResult) -> ChatCompletionRequestMessage {
    ChatCompletionRequestToolMessage { content: result.text.into(), tool_call_id: result.id }.into()
}

pub(crate) fn read(response: CreateChatCompletionResponse) -> Result<Said, BoxError> {
    let choice = response.choices.into_iter().next().ok_or("the model returned no choice")?;
    let calls = choice.message.tool_calls.into_iter().flatten().filter_map(|call| match call {
        ChatCompletionMessageToolCalls::Function(call) => {
            Some(Call { id: call.id, name: call.function.name, arguments: call.function.arguments })
        }
        ChatCompletionMessageToolCalls::Custom(_) => None,
    });
    let calls = calls.collect();
    Ok(Said { thinking: Vec::new(), text: choice.message.content.unwrap_or_default(), calls })
}
