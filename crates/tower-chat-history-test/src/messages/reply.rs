//! Replies: their scripts, their bodies, and the events of their streams.

use serde_json::{Map, Value, json};
use tower_chat_history_core::Usage;

use crate::util::pieces;

/// The number of characters of a signature in a delta.
const SIGNATURE_CHARS: usize = 40;

/// A block of a scripted reply. A reply is a list of them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Say {
    /// Signed thinking. Its text can be empty.
    Thinking(String),
    /// Redacted thinking.
    Redacted,
    /// A text.
    Text(String),
    /// A call that the program answers.
    Call {
        /// The id that the result must name.
        id: String,
        /// The name of the tool.
        name: String,
        /// The input, which is an object in replies of the API.
        input: Value,
    },
    /// A call of the server tool `web_search` with this id, and its result.
    Search(String),
    /// A call of the server tool `web_search` with this id. Its result comes with a later reply.
    OpenSearch(String),
    /// The result of such a call.
    Found(String),
    /// The reply pauses after the blocks before this.
    Pause,
    /// A summary of everything before it.
    Compaction(String),
    /// Any other block, as JSON.
    Block(Value),
}

impl Say {
    /// Returns thinking with this text.
    #[must_use]
    pub fn thinking(text: impl Into<String>) -> Self {
        Self::Thinking(text.into())
    }

    /// Returns a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns a call of a tool.
    #[must_use]
    pub fn call(id: impl Into<String>, name: impl Into<String>, input: impl Into<Value>) -> Self {
        Self::Call { id: id.into(), name: name.into(), input: input.into() }
    }

    /// Returns the blocks. Thinking has no signature yet.
    pub(super) fn blocks(&self) -> Vec<Value> {
        match self {
            Self::Thinking(thinking) => vec![json!({"type": "thinking", "thinking": thinking})],
            Self::Redacted => vec![json!({"type": "redacted_thinking"})],
            Self::Text(text) => vec![json!({"type": "text", "text": text})],
            Self::Call { id, name, input } => {
                vec![json!({"type": "tool_use", "id": id, "name": name, "input": input})]
            }
            Self::Search(id) => vec![search(id), found(id)],
            Self::OpenSearch(id) => vec![search(id)],
            Self::Found(id) => vec![found(id)],
            Self::Pause => Vec::new(),
            Self::Compaction(text) => vec![json!({"type": "compaction", "content": text})],
            Self::Block(block) => vec![block.clone()],
        }
    }
}

fn search(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}})
}

fn found(id: &str) -> Value {
    let page = json!({"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "e"});
    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [page]})
}

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
        events_of(&begun, &self.blocks(), &self.stop_reason, self.usage.output_tokens, chars)
    }

    /// Returns the JSON of a result for each call of the reply, in order.
    #[must_use]
    pub fn answers(&self, text: &str) -> Vec<String> {
        let mut results = Vec::new();
        for block in self.blocks() {
            if block["type"] == "tool_use" {
                let result = json!({"type": "tool_result", "tool_use_id": block["id"], "content": text});
                results.push(result.to_string());
            }
        }
        results
    }

    fn blocks(&self) -> Vec<Value> {
        self.content.iter().filter_map(|json| serde_json::from_str(json).ok()).collect()
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
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != "content") {
            head[name] = value.clone();
        }
        head
    }
}

/// Returns the events that stream these blocks.
fn events_of(begun: &Value, blocks: &[Value], stop_reason: &str, output_tokens: u64, chars: usize) -> Vec<String> {
    let mut events = vec![event(&json!({"type": "message_start", "message": begun}))];
    for (index, block) in blocks.iter().enumerate() {
        let (begun, deltas) = parts(block, chars);
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": begun})));
        if index == 0 {
            events.push(event(&json!({"type": "ping"})));
        }
        for delta in deltas {
            events.push(event(&json!({"type": "content_block_delta", "index": index, "delta": delta})));
        }
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
    }

    let stop = json!({"stop_reason": stop_reason, "stop_sequence": null});
    let usage = json!({"output_tokens": output_tokens});
    events.push(event(&json!({"type": "message_delta", "delta": stop, "usage": usage})));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// Returns the beginning of a block, and its deltas.
fn parts(block: &Value, chars: usize) -> (Value, Vec<Value>) {
    // The field, the type of its deltas, and their length.
    let texts: &[(&str, &str, usize)] = match block["type"].as_str().unwrap_or_default() {
        "text" => &[("text", "text_delta", chars)],
        "thinking" => &[("thinking", "thinking_delta", chars), ("signature", "signature_delta", SIGNATURE_CHARS)],
        "compaction" => &[("content", "compaction_delta", chars)],
        "tool_use" | "server_tool_use" => return input_parts(block, chars),
        _ => &[],
    };
    let mut begun = block.clone();
    let mut deltas = Vec::new();
    for (name, kind, chars) in texts.iter().copied() {
        let Some(text) = block[name].as_str() else { continue };
        begun[name] = "".into();
        for piece in pieces(text, chars) {
            deltas.push(json!({"type": kind, name: piece}));
        }
    }
    (begun, deltas)
}

/// Does the same for the input of a call.
fn input_parts(block: &Value, chars: usize) -> (Value, Vec<Value>) {
    let mut begun = block.clone();
    begun["input"] = json!({});
    // The first piece is empty, as that of the API.
    let mut deltas = vec![json!({"type": "input_json_delta", "partial_json": ""})];
    for piece in pieces(&block["input"].to_string(), chars) {
        deltas.push(json!({"type": "input_json_delta", "partial_json": piece}));
    }
    (begun, deltas)
}
