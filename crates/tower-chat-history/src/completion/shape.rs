//! Recognizing responses that are not chat completions.

use tower_chat_history_core::json::Object;

use crate::report::ResponseShape;

/// Returns the shape of an object without choices.
pub(super) fn of_object(object: &Object<'_>) -> ResponseShape {
    let kind = object.text("type").unwrap_or_default();
    let has = |name: &str| object.written(name).is_some();
    if object.get("error").is_some() {
        ResponseShape::Error
    } else if kind == "message" || kind.starts_with("message_") || kind.starts_with("content_block") {
        ResponseShape::AnthropicMessage
    } else if object.text("object").as_deref() == Some("response") || kind.starts_with("response.") {
        ResponseShape::OpenAiResponse
    } else if has("candidates") {
        ResponseShape::GeminiResponse
    } else if has("stopReason") && has("output") {
        ResponseShape::BedrockConverse
    } else if has("message") && has("done") {
        ResponseShape::OllamaChat
    } else {
        ResponseShape::NoChoices
    }
}
