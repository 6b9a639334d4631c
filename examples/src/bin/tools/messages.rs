//! Requests and replies of Anthropic's Messages API, as JSON.

use http::Response;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_chat_history::{BoxError, http::HistoryBody};

use crate::{
    agent::Input,
    model::Said,
    toolbox::{self, Call},
};

/// Returns the body of a request with thinking. All results of a reply's calls are in one message.
pub(crate) fn body(model: &str, input: Input) -> Value {
    let content = match input {
        Input::Question(text) => json!(text),
        Input::Results(results) => results
            .into_iter()
            .map(|result| {
                json!({
                    "type": "tool_result", "tool_use_id": result.id, "content": result.text,
                    "is_error": result.is_error,
                })
            })
            .collect(),
    };
    let tool =
        json!({ "name": toolbox::WEATHER, "description": toolbox::DESCRIPTION, "input_schema": toolbox::schema() });
    json!({
        "model": model, "max_tokens": 4096, "thinking": { "type": "adaptive" }, "tools": [tool],
        "messages": [{ "role": "user", "content": content }],
    })
}

pub(crate) async fn read(response: Response<HistoryBody>) -> Result<Said, BoxError> {
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }
    let message: Value = serde_json::from_slice(&body)?;
    let blocks = message["content"].as_array().ok_or("the model returned no content")?;
    let texts = |kind: &str| -> Vec<String> {
        let blocks = blocks.iter().filter(|block| block["type"] == kind);
        blocks.filter_map(|block| block[kind].as_str().map(str::to_owned)).collect()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| Call {
        id: text(&block["id"]),
        name: text(&block["name"]),
        arguments: block["input"].to_string(),
    });
    Ok(Said { thinking: texts("thinking"), text: texts("text").concat(), calls: calls.collect() })
}
