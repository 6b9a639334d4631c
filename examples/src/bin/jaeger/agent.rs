//! The demo's agent: one request with several model calls and tool calls.

use std::sync::Arc;

use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionRequestToolMessage, ChatCompletionTool, ChatCompletionTools,
    CreateChatCompletionRequest, FunctionObject,
};
use serde::Deserialize;
use serde_json::json;
use tower_chat_history::{BoxError, ConversationId, TurnReport};
use tracing::{Instrument as _, info_span};

use crate::{
    chat::{Chat, Request, chat_request, user},
    model::{Pace, TOOL, hotels},
};

/// The maximum number of model calls per question.
const MAX_ROUNDS: usize = 8;

/// Answers a question with the help of the tool. Returns the reports of all turns.
pub(crate) async fn run(
    chat: &Chat,
    request: &Request,
    id: &ConversationId,
    question: &str,
    pace: Pace,
) -> Result<Vec<Arc<TurnReport>>, BoxError> {
    let mut input = vec![user(question)];
    let mut reports = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let with_tools =
            CreateChatCompletionRequest { tools: Some(tools()), ..chat_request(std::mem::take(&mut input)) };
        let (response, report) = chat.send(request, id, with_tools).await?;
        reports.push(report);

        let calls = response.choices.into_iter().next().and_then(|choice| choice.message.tool_calls);
        for call in calls.into_iter().flatten() {
            let ChatCompletionMessageToolCalls::Function(call) = call else {
                return Err("the model requested an unknown tool".into());
            };
            let span = info_span!(
                parent: &request.span,
                "execute_tool",
                otel.name = format!("execute_tool {TOOL}"),
                otel.kind = "internal",
                gen_ai.operation.name = "execute_tool",
                gen_ai.tool.name = TOOL,
            );
            let found = search(&call.function.arguments, pace).instrument(span).await?;
            input.push(ChatCompletionRequestToolMessage { content: found.into(), tool_call_id: call.id }.into());
        }

        if input.is_empty() {
            return Ok(reports);
        }
    }
    Err(format!("the model still requests tools after {MAX_ROUNDS} rounds").into())
}

async fn search(arguments: &str, pace: Pace) -> Result<String, BoxError> {
    #[derive(Deserialize)]
    struct Arguments {
        town: String,
    }

    let Arguments { town } = serde_json::from_str(arguments)?;
    tokio::time::sleep(pace.millis(80)).await;
    Ok(hotels(&town))
}

/// Returns the tools that the model may call.
pub(crate) fn tools() -> Vec<ChatCompletionTools> {
    let function = FunctionObject {
        name: TOOL.to_owned(),
        description: Some("Finds hotels in a town.".to_owned()),
        parameters: Some(json!({
            "type": "object",
            "properties": { "town": { "type": "string" } },
            "required": ["town"],
        })),
        strict: None,
    };
    vec![ChatCompletionTools::Function(ChatCompletionTool { function })]
}
