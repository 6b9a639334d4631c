//! Recognizing responses that are not chat completions.

use super::members::Members;
use crate::report::ResponseShape;

/// Returns the shape of an object without choices.
pub(super) fn of_object(object: &Members<'_>) -> ResponseShape {
    let text = |name: &str| object.text(name).unwrap_or_default();
    let (kind, class) = (text("type"), text("object"));
    if object.some("error").is_some() {
        ResponseShape::Error
    } else if kind == "message" || kind.starts_with("message_") || kind.starts_with("content_block") {
        ResponseShape::AnthropicMessage
    } else if class == "response" || kind.starts_with("response.") {
        ResponseShape::OpenAiResponse
    } else if object.has("candidates") {
        ResponseShape::GeminiResponse
    } else if object.has("stopReason") && object.has("output") {
        ResponseShape::BedrockConverse
    } else if object.has("message") && object.has("done") {
        ResponseShape::OllamaChat
    } else {
        ResponseShape::NoChoices
    }
}
