//! The only tool: the weather in a city. It fails for Atlantis.

use async_openai::types::chat::{
    ChatCompletionMessageToolCall, ChatCompletionRequestMessage, ChatCompletionRequestToolMessage, ChatCompletionTool,
    ChatCompletionTools, FunctionObject,
};
use futures_util::future;
use serde::Deserialize;
use serde_json::json;

pub(crate) const WEATHER: &str = "weather";

pub(crate) fn descriptions() -> Vec<ChatCompletionTools> {
    let function = FunctionObject {
        name: WEATHER.into(),
        description: Some("Returns the weather in a city.".into()),
        parameters: Some(json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        })),
        strict: None,
    };
    vec![ChatCompletionTools::Function(ChatCompletionTool { function })]
}

/// Runs all calls concurrently. A failed call has a result too, because providers require a result for every call.
pub(crate) async fn run_all(calls: &[ChatCompletionMessageToolCall]) -> Vec<ChatCompletionRequestMessage> {
    future::join_all(calls.iter().map(|call| async {
        let result = run(&call.function.name, &call.function.arguments).await;
        let text = result.unwrap_or_else(|error| format!("error: {error}"));
        ChatCompletionRequestToolMessage { content: text.into(), tool_call_id: call.id.clone() }.into()
    }))
    .await
}

async fn run(name: &str, arguments: &str) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Arguments {
        city: String,
    }
    if name != WEATHER {
        return Err(format!("unknown tool {name}"));
    }
    // Models sometimes write invalid JSON.
    let Arguments { city } = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    tokio::task::yield_now().await;
    match city.as_str() {
        "Atlantis" => Err("there is no such city".into()),
        city => Ok(format!("{city}: {} degrees", city.len() * 3)),
    }
}
