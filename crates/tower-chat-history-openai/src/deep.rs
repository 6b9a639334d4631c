//! The check for schemas with too many levels of lists and objects.

use std::mem;

use async_openai::types::chat::{
    ChatCompletionToolChoiceOption, ChatCompletionTools, CreateChatCompletionRequest, ResponseFormat,
};
use serde_json::Value;
use tower_chat_history::adapt::nested;

/// A request with a schema of more than [128 levels](nested::MAX_LEVELS) of lists and objects, in its tools, functions,
/// tool choice or response format. Serializing it could overflow the stack. The model is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a schema of the request has more than {} levels", nested::MAX_LEVELS)]
#[non_exhaustive]
pub struct RequestTooDeep;

/// Returns the request if none of its schemas has too many levels. It is boxed, because it is large, and callers move
/// it several times.
pub(crate) fn checked(
    request: CreateChatCompletionRequest,
) -> Result<Box<CreateChatCompletionRequest>, RequestTooDeep> {
    let mut request = Box::new(request);
    if schemas(&mut request).all(|schema| !nested::is_too_deep(schema)) {
        return Ok(request);
    }
    schemas(&mut request).for_each(|schema| nested::dismantle(mem::take(schema)));
    Err(RequestTooDeep)
}

/// Returns the values of a request that can have any number of levels.
#[allow(deprecated)] // Callers still use functions.
fn schemas(request: &mut CreateChatCompletionRequest) -> impl Iterator<Item = &mut Value> {
    let CreateChatCompletionRequest { tools, functions, response_format, tool_choice, .. } = request;
    let tools = tools.iter_mut().flatten().filter_map(|tool| match tool {
        ChatCompletionTools::Function(tool) => tool.function.parameters.as_mut(),
        ChatCompletionTools::Custom(_) => None,
    });
    let functions = functions.iter_mut().flatten().map(|function| &mut function.parameters);
    let format = response_format.iter_mut().filter_map(|format| match format {
        ResponseFormat::JsonSchema { json_schema } => Some(&mut json_schema.schema),
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    });
    let allowed = tool_choice.iter_mut().flat_map(|choice| match choice {
        ChatCompletionToolChoiceOption::AllowedTools(allowed) => allowed.allowed_tools.as_mut_slice(),
        _ => &mut [],
    });
    let allowed = allowed.flat_map(|allowed| &mut allowed.tools);
    tools.chain(functions).chain(format).chain(allowed)
}
