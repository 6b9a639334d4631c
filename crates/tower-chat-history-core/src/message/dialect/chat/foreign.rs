//! Messages in the shape of another API.

use std::fmt;

use super::{ChatCompletions, Content};
use crate::{json::Object, message::Message};

/// The message format of an API other than chat completions.
///
/// The rules that make a prompt valid do not see tool calls and results in a message of such a format, so the message
/// is refused as input. The names in the variants are constants of this crate, not text of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignShape {
    /// The content has a block of Anthropic's Messages API, of this type.
    AnthropicBlock(&'static str),
    /// The content has a part of OpenAI's Responses API, of this type.
    ResponsesPart(&'static str),
    /// The content has a block of Amazon Bedrock's Converse API, with this field.
    ConverseBlock(&'static str),
    /// The message has `parts` and no content, as in Google's Gemini API.
    GeminiParts,
}

/// The types of Anthropic's blocks that contain calls, results or reasoning. Its `text` blocks are the same as in
/// chat completions.
const ANTHROPIC: [&str; 13] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
];

const RESPONSES: [&str; 8] = [
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    "reasoning_text",
    "summary_text",
    "function_call",
    "function_call_output",
];

impl fmt::Display for ForeignShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnthropicBlock(name) => write!(f, "its content has a {name} block of Anthropic's Messages API"),
            Self::ResponsesPart(name) => write!(f, "its content has a part of type {name} of OpenAI's Responses API"),
            Self::ConverseBlock(name) => write!(f, "its content has a {name} block of Amazon Bedrock's Converse API"),
            Self::GeminiParts => f.write_str("it has parts and no content, as in Google's Gemini API"),
        }
    }
}

/// Returns the API whose shape a part of a content has.
fn shape_of(part: &Object<'_>) -> Option<ForeignShape> {
    let Some(name) = part.text("type") else {
        let field = ["toolUse", "toolResult"].into_iter().find(|name| part.get(name).is_some());
        return field.map(ForeignShape::ConverseBlock);
    };

    if let Some(known) = ANTHROPIC.into_iter().find(|known| *known == name) {
        // Mistral's chat completions have parts of type `thinking`, too, but theirs is a list.
        let is_anthropic = known != "thinking" || part.text("thinking").is_some();
        if is_anthropic {
            return Some(ForeignShape::AnthropicBlock(known));
        }
    }
    RESPONSES.into_iter().find(|known| *known == name).map(ForeignShape::ResponsesPart)
}

impl Message {
    /// Returns the other API whose shape the message has, or `None` if it is in the chat-completions format as far
    /// as this crate knows. Unknown fields and unknown content parts do not count as another shape.
    ///
    /// A message of another dialect than [chat completions](ChatCompletions) has no other shape. The content is read on
    /// each call.
    ///
    /// ```
    /// use tower_chat_history_core::{ForeignShape, Message};
    ///
    /// let json = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}"#;
    /// let shape = Message::from_json(json)?.foreign_shape();
    /// assert_eq!(shape, Some(ForeignShape::AnthropicBlock("tool_result")));
    /// assert_eq!(Message::tool("x", "1").foreign_shape(), None);
    /// # Ok::<(), tower_chat_history_core::MessageError>(())
    /// ```
    #[must_use]
    pub fn foreign_shape(&self) -> Option<ForeignShape> {
        self.dialect().filter(|dialect| dialect.name() == ChatCompletions::NAME)?;
        match self.content() {
            Content::Parts(parts) => parts.into_iter().find_map(|part| shape_of(&Object::read(part)?)),
            Content::None => Object::read(self.json())?.entries("parts").map(|_| ForeignShape::GeminiParts),
            Content::Text(_) | Content::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(json: &str) -> Option<ForeignShape> {
        Message::from_json(json).unwrap().foreign_shape()
    }

    #[test]
    fn shapes_of_other_apis_are_recognized() {
        use ForeignShape::{AnthropicBlock, ConverseBlock, GeminiParts, ResponsesPart};
        for (json, expected) in [
            (
                r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"x","name":"f","input":{}}]}"#,
                AnthropicBlock("tool_use"),
            ),
            (r#"{"role":"user","content":[{"tool_use_id":"x","type":"tool_result"}]}"#, AnthropicBlock("tool_result")),
            (
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]}"#,
                AnthropicBlock("thinking"),
            ),
            (
                r#"{"role":"assistant","content":[{"type":"redacted_thinking","data":"d"}]}"#,
                AnthropicBlock("redacted_thinking"),
            ),
            (r#"{"role":"user","content":[{"type":"input_text","text":"a"}]}"#, ResponsesPart("input_text")),
            (
                r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]}"#,
                ResponsesPart("output_text"),
            ),
            (
                r#"{"role":"assistant","content":[{"text":"a"},{"toolUse":{"toolUseId":"x"}}]}"#,
                ConverseBlock("toolUse"),
            ),
            (r#"{"role":"user","content":[{"toolResult":{"toolUseId":"x"}}]}"#, ConverseBlock("toolResult")),
            (r#"{"role":"model","parts":[{"text":"a"}]}"#, GeminiParts),
            (r#"{"role":"user","parts":[{"functionResponse":{"name":"f"}}],"content":null}"#, GeminiParts),
        ] {
            assert_eq!(shape(json), Some(expected), "{json}");
        }
    }

    #[test]
    fn chat_completions_messages_have_no_other_shape() {
        for json in [
            r#"{"role":"user","content":"tool_use"}"#,
            r#"{"role":"user","content":[{"type":"text","text":"{\"type\":\"tool_use\"}"},{"type":"image_url","image_url":{}}]}"#,
            r#"{"role":"user","content":[{"type":"input_audio","input_audio":{}},{"type":"file","file":{}},{"type":"video_url"}]}"#,
            r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}"#,
            r#"{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking"}],"tool_calls":[]}"#,
            r#"{"role":"user","content":"a","parts":[{"type":"text","text":"a"}]}"#,
            r#"{"role":"user","content":["odd",1,null,[]]}"#,
            r#"{"role":"user","content":[{"type":1}]}"#,
        ] {
            assert_eq!(shape(json), None, "{json}");
        }
    }

    #[test]
    fn deep_content_is_read_without_recursion() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(
            shape(&format!(r#"{{"role":"user","content":[{{"type":"x","thinking":{deep},"y":{deep}}}]}}"#)),
            None
        );
    }
}
