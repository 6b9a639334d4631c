//! A reply that the provider made.

use serde_json::{Map, Value, json};
use tower_chat_history_core::Usage;

use super::events;

/// A reply that a [`MessagesProvider`](super::MessagesProvider) made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeMessage {
    /// The id of the message.
    pub id: String,
    /// The name of the model.
    pub model: String,
    /// The JSON of each block of `content`.
    pub content: Vec<String>,
    /// The reason to stop: `tool_use` if there are calls, `pause_turn` if the reply pauses, and otherwise `end_turn`.
    pub stop_reason: String,
    /// The usage.
    pub usage: Usage,
    /// Further fields of the body, besides `content`.
    pub fields: Map<String, Value>,
}

impl MadeMessage {
    /// Returns the body of the response. The blocks have the same bytes as in [`content`](Self::content).
    #[must_use]
    pub fn body(&self) -> String {
        let rest = self.head(&json!(self.stop_reason), self.usage.output_tokens).to_string();
        format!(r#"{{"content":[{}],{}"#, self.content.join(","), rest.trim_start_matches('{'))
    }

    /// Returns the server-sent events of a stream with this reply, each with its name and its data. A delta has at most
    /// `chars` characters of text, thinking or input. A signature comes in several deltas.
    #[must_use]
    pub fn events(&self, chars: usize) -> Vec<String> {
        let mut begun = self.head(&Value::Null, 1);
        begun["content"] = json!([]);
        let blocks: Vec<Value> = self.content.iter().filter_map(|json| serde_json::from_str(json).ok()).collect();
        events::of(&begun, &blocks, &self.stop_reason, self.usage.output_tokens, chars)
    }

    /// Returns the JSON of a result for each call of the reply, in order.
    #[must_use]
    pub fn answers(&self, text: &str) -> Vec<String> {
        let blocks = self.content.iter().filter_map(|json| serde_json::from_str::<Value>(json).ok());
        let calls = blocks.filter(|block| block["type"] == "tool_use");
        let result = |call: Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": text});
        calls.map(|call| result(call).to_string()).collect()
    }

    /// Returns the message without its content.
    fn head(&self, stop_reason: &Value, output_tokens: u64) -> Value {
        let cached = self.usage.cached_input_tokens.unwrap_or_default();
        let mut head = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "stop_reason": stop_reason, "stop_sequence": null,
            "usage": {
                // Anthropic does not count the tokens of the cache here.
                "input_tokens": self.usage.input_tokens.saturating_sub(cached), "output_tokens": output_tokens,
                "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0,
            },
        });
        let fields = self.fields.iter().filter(|(name, _)| *name != "content");
        fields.for_each(|(name, value)| head[name] = value.clone());
        head
    }
}
