//! Questions, results and replies in the three formats.

use serde_json::{Value, json};
use tower_chat_history::{
    Message,
    dialect::{AnthropicMessages, ChatCompletions, Dialect, OpenAiResponses},
};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Chat,
    Messages,
    Responses,
}

/// The content of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Text(usize),
    /// Reasoning that only its provider can read, and a text.
    ReasonedText,
    /// This number of calls.
    Calls(usize),
    /// The same, after reasoning.
    ReasonedCalls(usize),
    /// A message that stands for everything before it, where the format has one.
    Compaction,
    Nothing,
}

impl Api {
    pub(super) const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    pub(super) fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Chat => &ChatCompletions,
            Self::Messages => &AnthropicMessages,
            Self::Responses => &OpenAiResponses,
        }
    }

    pub(super) const fn provider(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Messages => "anthropic",
            Self::Responses => "openai",
        }
    }

    pub(super) fn message(self, json: &Value) -> Message {
        Message::in_dialect(self.dialect(), json.to_string()).unwrap()
    }

    pub(super) fn question(self, text: &str) -> Message {
        self.message(&json!({"role": "user", "content": text}))
    }

    /// Returns the results of these calls.
    pub(super) fn results(self, ids: &[String], text: &str) -> Vec<Message> {
        let result = |id: &String| match self {
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Self::Messages => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
            Self::Responses => json!({"type": "function_call_output", "call_id": id, "output": text}),
        };
        let results = ids.iter().map(result);
        match self {
            Self::Messages => vec![self.message(&json!({"role": "user", "content": results.collect::<Vec<_>>()}))],
            Self::Chat | Self::Responses => results.map(|result| self.message(&result)).collect(),
        }
    }

    /// Returns a reply, and the ids of its calls. Its texts and its reasoning have the number.
    pub(super) fn reply(self, says: Says, number: u64) -> (Vec<Message>, Vec<String>) {
        let ids = |calls: usize| (0..calls).map(|at| format!("c{at}")).collect::<Vec<_>>();
        let (text, thinks, ids) = match says {
            Says::Text(bytes) => (format!("a{number} {}", "a".repeat(bytes)), false, Vec::new()),
            Says::ReasonedText => (format!("a{number}"), true, Vec::new()),
            Says::Calls(calls) => (String::new(), false, ids(calls)),
            Says::ReasonedCalls(calls) => (String::new(), true, ids(calls)),
            Says::Compaction if self == Self::Responses => {
                let item = json!({"type": "compaction", "id": "cmp_1", "encrypted_content": format!("s{number}")});
                return (vec![self.message(&item), self.said("so")], Vec::new());
            }
            Says::Compaction => ("so".to_owned(), false, Vec::new()),
            Says::Nothing => (String::new(), false, Vec::new()),
        };
        let thought = thinks.then(|| format!("hm {number}"));
        (self.elements(&text, thought.as_deref(), &ids), ids)
    }

    fn said(self, text: &str) -> Message {
        self.elements(text, None, &[]).remove(0)
    }

    fn elements(self, text: &str, thought: Option<&str>, ids: &[String]) -> Vec<Message> {
        match self {
            Self::Chat => {
                let call = |id| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
                let mut message = json!({"role": "assistant", "content": text});
                if !ids.is_empty() {
                    message["tool_calls"] = ids.iter().map(call).collect();
                }
                if let Some(thought) = thought {
                    message["thinking_blocks"] =
                        json!([{"type": "thinking", "thinking": thought, "signature": "c2VjcmV0"}]);
                }
                vec![self.message(&message)]
            }
            Self::Messages => {
                let thought =
                    thought.map(|text| json!({"type": "thinking", "thinking": text, "signature": "c2VjcmV0"}));
                let text = (!text.is_empty() || ids.is_empty()).then(|| json!({"type": "text", "text": text}));
                let calls = ids.iter().map(|id| json!({"type": "tool_use", "id": id, "name": "look", "input": {}}));
                let blocks: Vec<Value> = thought.into_iter().chain(text).chain(calls).collect();
                vec![self.message(&json!({"role": "assistant", "content": blocks}))]
            }
            Self::Responses => {
                let thought = thought.map(|text| {
                    json!({"type": "reasoning", "id": format!("rs_{text}"), "summary": [], "encrypted_content": "c2VjcmV0"})
                });
                let part = json!([{"type": "output_text", "text": text, "annotations": []}]);
                let text = (!text.is_empty() || ids.is_empty())
                    .then(|| json!({"type": "message", "id": "msg_1", "role": "assistant", "content": part}));
                let call = |id| json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"});
                let items = thought.into_iter().chain(text).chain(ids.iter().map(call));
                items.map(|item| self.message(&item)).collect()
            }
        }
    }
}

/// Returns a reply that pauses while the provider searches, and the rest of the reply.
pub(super) fn paused(number: u64) -> [Message; 2] {
    let id = format!("srvtoolu_{number}");
    let call = json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let rest = json!([result, {"type": "text", "text": format!("a{number}")}]);
    [json!([call]), rest].map(|content| Api::Messages.message(&json!({"role": "assistant", "content": content})))
}
