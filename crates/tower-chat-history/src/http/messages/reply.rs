//! The reply of a whole response, and refusals of thinking that the provider cannot verify.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tower_chat_history_core::{
    Message,
    json::{BOM, Object},
};

use crate::{adapt::completion, call::Reply, dialect::AnthropicMessages, report::ResponseShape, store::Usage};

/// Returns the reply of a response's body. If the body has none, the result has its shape.
pub(super) fn reply_of(body: &[u8]) -> Reply {
    let text = std::str::from_utf8(body.strip_prefix(BOM).unwrap_or(body)).map(str::trim);
    let Some(response) = text.ok().and_then(Object::read) else { return Reply::unreadable(shape_of(body)) };
    let is_error = response.text("type").as_deref() == Some("error") || response.get("error").is_some();
    if is_error {
        return Reply::unreadable(ResponseShape::Error);
    }
    let Some(message) = response.raw("content").and_then(message) else { return Reply::unreadable(shape_of(body)) };
    if response.text("role").is_some_and(|role| role != "assistant") {
        completion::warn_of_role();
    }

    let mut counts = Counts::default();
    counts.read(&response);
    let mut reply = Reply::new(message);
    reply.model = response.string("model");
    reply.finish_reason = response.string("stop_reason");
    reply.usage = counts.usage();
    reply
}

/// Returns the shape of a body that is no message.
fn shape_of(body: &[u8]) -> ResponseShape {
    match completion::reply_of(body).unreadable {
        Some(ResponseShape::AnthropicMessage | ResponseShape::NoChoices) | None => ResponseShape::NoMessage,
        Some(shape) => shape,
    }
}

/// Returns the model's message with this content, which must be a list or a text.
fn message(content: &RawValue) -> Option<Message> {
    #[derive(Serialize)]
    struct AssistantMessage<'a> {
        role: &'static str,
        content: &'a RawValue,
    }

    if !content.get().starts_with(['"', '[']) {
        return None;
    }
    let json = to_raw_value(&AssistantMessage { role: "assistant", content }).ok()?;
    Message::in_dialect_raw(&AnthropicMessages, json).ok()
}

/// Returns the model's message with this content.
pub(super) fn message_with(content: &str) -> Option<Message> {
    Message::in_dialect(&AnthropicMessages, format!(r#"{{"role":"assistant","content":{content}}}"#)).ok()
}

/// The numbers of tokens that the provider reports. In a stream, later numbers replace the earlier ones, because they
/// are sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    input: Option<u64>,
    cache_reads: Option<u64>,
    cache_writes: Option<u64>,
    output: Option<u64>,
}

impl Counts {
    /// Reads the usage of a response or of an event.
    pub(super) fn read(&mut self, object: &Object<'_>) {
        let Some(usage) = object.object("usage") else { return };
        self.input = usage.number("input_tokens").or(self.input);
        self.cache_reads = usage.number("cache_read_input_tokens").or(self.cache_reads);
        self.cache_writes = usage.number("cache_creation_input_tokens").or(self.cache_writes);
        self.output = usage.number("output_tokens").or(self.output);
    }

    /// Returns the usage. The provider counts the tokens that it reads from its cache, or writes to it, apart from the
    /// input. They are tokens of the prompt.
    pub(super) fn usage(self) -> Option<Usage> {
        let parts = [self.cache_reads, self.cache_writes].map(Option::unwrap_or_default);
        let input = parts.into_iter().fold(self.input?, u64::saturating_add);
        let mut usage = Usage::new(input, self.output.unwrap_or_default());
        usage.cached_input_tokens = self.cache_reads;
        Some(usage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: &str =
        r#"[ {"type":"thinking","thinking":"","signature":"s"}, {"x":1.50,"type":"text","text":"\u00e4"} ]"#;

    fn shape(body: &str) -> Option<&'static str> {
        let reply = reply_of(body.as_bytes());
        assert_eq!(reply.messages, [], "{body}");
        reply.unreadable.map(ResponseShape::name)
    }

    #[test]
    fn the_content_is_kept_byte_for_byte() {
        let body = format!(
            "\u{feff} {{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":{CONTENT},
            \"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{{\"input_tokens\":7,\"output_tokens\":2,
            \"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":300}}}}\n"
        );
        let reply = reply_of(body.as_bytes());
        assert_eq!(reply.message().unwrap().json(), format!(r#"{{"role":"assistant","content":{CONTENT}}}"#));
        assert_eq!((reply.model.as_deref(), reply.finish_reason.as_deref()), (Some("m"), Some("end_turn")));
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_input_tokens), (327, 2, Some(300)));
    }

    #[test]
    fn every_stop_reason_is_kept() {
        for reason in [
            "end_turn",
            "max_tokens",
            "stop_sequence",
            "tool_use",
            "pause_turn",
            "refusal",
            "compaction",
            "model_context_window_exceeded",
            "another",
        ] {
            let body = format!(r#"{{"type":"message","role":"assistant","content":[],"stop_reason":"{reason}"}}"#);
            let reply = reply_of(body.as_bytes());
            assert_eq!(reply.finish_reason.as_deref(), Some(reason));
            assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":[]}"#);
            assert_eq!(reply.usage, None);
        }
    }

    #[test]
    fn a_reply_is_stored_with_the_role_of_the_assistant() {
        for role in [r#""role":"user","#, r#""role":7,"#, ""] {
            let body = format!(r#"{{{role}"content":"a"}}"#);
            let reply = reply_of(body.as_bytes());
            assert_eq!(reply.message().unwrap().json(), r#"{"role":"assistant","content":"a"}"#, "{body}");
        }
    }

    #[test]
    fn the_shape_of_an_unreadable_response_is_reported() {
        for (body, expected) in [
            ("", "not JSON"),
            ("<html>", "not JSON"),
            (r#"{"content":["#, "not JSON"),
            ("[]", "choice without a message"),
            ("{}", "choice without a message"),
            (r#"{"type":"message","role":"assistant","content":null}"#, "choice without a message"),
            (r#"{"type":"message","role":"assistant","content":{}}"#, "choice without a message"),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"secret"}}"#, "error"),
            (r#"{"error":"secret"}"#, "error"),
            (r#"{"choices":[{"message":{"role":"assistant","content":"a"}}]}"#, "choice without a message"),
            (r#"{"object":"response","output":[]}"#, "OpenAI response"),
            (r#"{"output":{"message":{"role":"assistant"}},"stopReason":"end_turn"}"#, "Bedrock Converse response"),
        ] {
            assert_eq!(shape(body), Some(expected), "{body}");
        }
        assert_eq!(reply_of(b"\xff").unreadable, Some(ResponseShape::NotJson));
    }

    #[test]
    fn deep_bodies_are_read() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let body = format!(r#"{{"x":{deep},"content":[{{"type":"text","text":"a","y":{deep}}}]}}"#);
        assert_eq!(reply_of(body.as_bytes()).message().unwrap().text(), "a");
    }
}
