//! Finding the reply in a whole response.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tower_chat_history_core::{
    ChatCompletions, Message, Usage,
    json::{self, Object},
    nested,
};

use super::members::{number, object, text};
use crate::{call::Reply, report::ResponseShape};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the reply of a response body: the choice with the lowest `index`, with its message byte for byte.
///
/// If the body has another shape, or the choice has no message or has an `error`, the reply has no message, and
/// [`Reply::unreadable`] has the shape. If the list of choices is empty and there is no `error`, the reply has neither
/// a message nor a shape.
#[must_use]
pub fn reply_of(body: &[u8]) -> Reply {
    let body = body.strip_prefix(BOM).unwrap_or(body);
    match std::str::from_utf8(body) {
        Ok(body) => of_text(body.trim_ascii()),
        Err(_) => Reply::unreadable(ResponseShape::NotJson),
    }
}

/// Returns the reply of a response that is a value.
pub(crate) fn reply_of_value(response: &Value) -> Reply {
    nested::to_string(response).map_or_else(|_| Reply::unreadable(ResponseShape::TooDeep), |json| of_text(&json))
}

fn of_text(body: &str) -> Reply {
    let response = match object(body) {
        Ok(Some(response)) => response,
        Ok(None) if json::entries(body).is_some() => return Reply::unreadable(ResponseShape::NoChoices),
        Ok(None) | Err(_) => return Reply::unreadable(ResponseShape::NotJson),
    };
    let mut reply =
        Reply { model: text(&response, "model"), usage: response.get("usage").and_then(usage), ..Reply::default() };
    let Some(choices) = response.entries("choices") else {
        reply.unreadable = Some(shape(&response));
        return reply;
    };

    let choices = choices.into_iter().map(|choice| object(choice).ok().flatten());
    // If several choices have the same index, the first of them is used.
    let Some(choice) = choices.min_by_key(|choice| choice.as_ref().map_or(0, index)) else {
        reply.unreadable = response.get("error").map(|_| ResponseShape::Error);
        return reply;
    };

    let Some(choice) = choice else {
        reply.unreadable = Some(ResponseShape::NoMessage);
        return reply;
    };
    reply.finish_reason = text(&choice, "finish_reason");
    if choice.get("error").is_some() {
        reply.unreadable = Some(ResponseShape::Error);
        return reply;
    }
    match choice.get("message").and_then(message) {
        Some(message) => reply.messages.push(message),
        None => reply.unreadable = Some(ResponseShape::NoMessage),
    }
    reply
}

/// Returns the index of a choice. A missing one is 0.
pub(super) fn index(choice: &Object<'_>) -> u64 {
    choice.get("index").and_then(number).unwrap_or(0)
}

/// Returns the usage that the provider reported, or `None` for null, which most chunks of a stream contain.
pub(super) fn usage(json: &str) -> Option<Usage> {
    let tokens = Object::read(json)?;
    let input = tokens.get("prompt_tokens").and_then(number)?;
    let output = tokens.get("completion_tokens").and_then(number).unwrap_or(0);
    let details = tokens.object("prompt_tokens_details");
    let mut usage = Usage::new(input, output);
    usage.cached_input_tokens = details.and_then(|details| details.get("cached_tokens").and_then(number));
    Some(usage)
}

/// Returns the shape of an object without choices.
pub(super) fn shape(object: &Object<'_>) -> ResponseShape {
    let kind = object.text("type").unwrap_or_default();
    if object.get("error").is_some() {
        ResponseShape::Error
    } else if kind == "message" || kind.starts_with("message_") || kind.starts_with("content_block") {
        ResponseShape::AnthropicMessage
    } else if object.text("object").as_deref() == Some("response") || kind.starts_with("response.") {
        ResponseShape::OpenAiResponse
    } else if object.written("candidates").is_some() {
        ResponseShape::GeminiResponse
    } else if object.written("stopReason").is_some() && object.written("output").is_some() {
        ResponseShape::BedrockConverse
    } else if object.written("message").is_some() && object.written("done").is_some() {
        ResponseShape::OllamaChat
    } else {
        ResponseShape::NoChoices
    }
}

/// Returns a reply with the role `assistant`. Another role is replaced, with a warning. Nothing else changes.
///
/// If a reply were stored with the role `tool`, `user` or `system`, the conversation's next call would treat it as a
/// tool result, a question or an instruction.
///
/// ```
/// use tower_chat_history::{Message, Role, adapt::completion::assistant};
///
/// assert_eq!(assistant(Message::user("Hi")).json(), r#"{"role":"assistant","content":"Hi"}"#);
/// ```
#[must_use]
pub fn assistant(message: Message) -> Message {
    let is_chat = message.dialect().is_some_and(|dialect| dialect.name() == ChatCompletions::NAME);
    if !is_chat || message.is_reply() {
        return message;
    }
    warn_of_role();
    with_role(message.json()).unwrap_or_else(|| Message::assistant(message.text()))
}

/// Returns the message of a response, unchanged if its role is `assistant`.
fn message(json: &str) -> Option<Message> {
    match Message::from_json(json) {
        Ok(message) => Some(assistant(message)),
        // Some compatible providers leave out the role, which can only be `assistant`.
        Err(_) => with_role(json),
    }
}

/// Returns the object with the role `assistant`. A missing role is added as the first member.
fn with_role(json: &str) -> Option<Message> {
    let object = Object::read(json)?;
    if object.written("role").is_some() {
        return Message::from_json(object.with("role", r#""assistant""#)).ok();
    }
    let comma = if object.members().is_empty() { "" } else { "," };
    let members = json.trim_ascii_start().strip_prefix('{')?;
    Message::from_json(format!(r#"{{"role":"assistant"{comma}{members}"#)).ok()
}

/// Warns that a provider gave a reply another role than `assistant`. It warns once per process, because such a provider
/// gives each reply this role. The warning does not quote the role, which is text of the provider.
pub fn warn_of_role() {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        tracing::warn!("a reply has a role other than `assistant`; such replies are stored with the role `assistant`");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape_of(body: &str) -> Option<&'static str> {
        let reply = reply_of(body.as_bytes());
        assert_eq!(reply.messages, [], "{body}");
        reply.unreadable.map(ResponseShape::name)
    }

    #[test]
    fn the_first_choice_by_index_is_kept_byte_for_byte() {
        let message = r#"{ "role" : "assistant","content":null, "reasoning_content":"\u00e4", "x":1.50 }"#;
        let body = format!(
            r#"{{"choices":[{{"index":1,"message":{{"role":"assistant"}}}},{{"index":0,"message":{message},"finish_reason":"end_turn"}}],
            "model":"m","usage":{{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{{"cached_tokens":3}}}}}}"#
        );
        let reply = reply_of(body.as_bytes());
        assert_eq!(reply.message().unwrap().json(), message);
        assert_eq!((reply.model.as_deref(), reply.finish_reason.as_deref()), (Some("m"), Some("end_turn")));
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens), (7, 2, Some(3)));
    }

    #[test]
    fn responses_that_clients_tolerate_are_read() {
        let whole =
            r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"}}],"usage":{"prompt_tokens":1}}"#;
        for body in [
            whole.replace("\"index\":0", "\"index\":0.0"),
            whole.replace("\"index\":0", "\"index\":\"0\""),
            whole.replace("\"index\":0", "\"index\":1"),
            whole.replace("\"index\":0", "\"index\":null"),
            whole.replace("\"usage\"", "\"usage\":null,\"usage\""),
            whole.replace("\"choices\"", "\"choices\":[],\"choices\""),
            whole.replace(":1}", ":1.0}"),
            format!("\u{feff}{whole}\n"),
        ] {
            let reply = reply_of(body.as_bytes());
            assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":"Hi"}"#, "{body}");
            assert_eq!(reply.usage, Some(Usage::new(1, 0)), "{body}");
        }
    }

    #[test]
    fn a_reply_gets_the_assistant_role() {
        let body = r#"{"choices":[{"message":{"role":"tool","tool_call_id":"x","content":"a"}}]}"#;
        let expected = r#"{"role":"assistant","tool_call_id":"x","content":"a"}"#;
        assert_eq!(reply_of(body.as_bytes()).message().unwrap().json(), expected);
    }

    #[test]
    fn an_empty_list_of_choices_is_readable() {
        assert_eq!(shape_of(r#"{"choices":[]}"#), None);
    }

    #[test]
    fn the_shape_of_an_unreadable_response_is_reported() {
        for (body, expected) in [
            ("", "not JSON"),
            ("<html>", "not JSON"),
            ("{\"choices\":", "not JSON"),
            ("\u{0}", "not JSON"),
            ("[]", "JSON without choices"),
            ("{}", "JSON without choices"),
            (r#"{"choices":1}"#, "JSON without choices"),
            (r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}]}"#, "Anthropic message"),
            (r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#, "Gemini response"),
            (r#"{"object":"response","output":[]}"#, "OpenAI response"),
            (r#"{"output":{"message":{"role":"assistant"}},"stopReason":"end_turn"}"#, "Bedrock Converse response"),
            (r#"{"model":"m","message":{"role":"assistant","content":"Hi"},"done":true}"#, "Ollama chat response"),
            (r#"{"error":{"message":"secret"}}"#, "error"),
            (r#"{"choices":[],"error":{"message":"secret"}}"#, "error"),
            (r#"{"choices":[{"message":{"role":"assistant","content":"a"},"error":{"code":502}}]}"#, "error"),
            (r#"{"choices":[{"message":null}]}"#, "choice without a message"),
            (r#"{"choices":[{"text":"a"}]}"#, "choice without a message"),
            (r#"{"choices":[7]}"#, "choice without a message"),
        ] {
            assert_eq!(shape_of(body), Some(expected), "{body}");
        }
        assert_eq!(reply_of(b"\xff").unreadable, Some(ResponseShape::NotJson));
    }

    #[test]
    fn a_value_and_its_text_give_the_same_reply() {
        let response = json!({"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "a", "x": [1]}}]});
        assert_eq!(reply_of_value(&response), reply_of(response.to_string().as_bytes()));
        assert!(reply_of_value(&response).message().unwrap().json().contains(r#""x":[1]"#));
    }

    #[test]
    fn deep_bodies_are_read() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let body = format!(r#"{{"x":{deep},"choices":[{{"message":{{"role":"user","content":"a","y":{deep}}}}}]}}"#);
        assert_eq!(reply_of(body.as_bytes()).message().unwrap().text(), "a");
        assert_eq!(shape_of(&deep), Some("JSON without choices"));
    }

    #[test]
    fn the_assistants_message_is_kept_byte_for_byte() {
        let json = r#"{ "content":"\u00e4", "role" : "assistant","x":1.50 }"#;
        assert_eq!(message(json).unwrap().json(), json);
    }

    #[test]
    fn another_role_is_replaced_in_its_place() {
        for role in ["\"user\"", "\"tool\"", "\"system\"", "null", "1"] {
            let json = format!(r#"{{"x":1.50,"role":{role},"content":"a"}}"#);
            assert_eq!(message(&json).unwrap().json(), r#"{"x":1.50,"role":"assistant","content":"a"}"#, "{role}");
        }
    }

    #[test]
    fn a_missing_role_is_added() {
        assert_eq!(message(r#"{"content":"a"}"#).unwrap().json(), r#"{"role":"assistant","content":"a"}"#);
        assert_eq!(message("{}").unwrap().json(), r#"{"role":"assistant"}"#);
        assert_eq!(message("[]"), None);
        assert_eq!(message("\"a\""), None);
    }
}
