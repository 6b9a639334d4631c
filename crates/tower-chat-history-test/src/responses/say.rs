//! Scripts of responses.

use serde_json::{Value, json};

use super::item::CallType;

/// An item of a scripted response. Calls next to each other are parallel calls.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Say {
    /// Reasoning with these texts as its summary, and encrypted content. The item after it belongs to it. A script that
    /// ends with it is a response that was interrupted.
    Reasoning(Vec<String>),
    /// A message with this text.
    Message {
        /// The text.
        text: String,
        /// The phase, such as `commentary` or `final_answer`.
        phase: Option<&'static str>,
    },
    /// A message with this refusal.
    Refusal(String),
    /// A call that the program answers.
    Call {
        /// The kind of the call.
        kind: CallType,
        /// The id that the output must name. An MCP approval request has an id of its own instead.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments or the input.
        arguments: String,
    },
    /// A web search that the provider executed.
    WebSearch,
    /// A compaction, which stands for everything before it.
    Compaction,
    /// An item of a type that no program knows.
    Unknown,
}

impl Say {
    /// Returns reasoning with an empty summary.
    #[must_use]
    pub const fn reasoning() -> Self {
        Self::Reasoning(Vec::new())
    }

    /// Returns a message without phase.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Message { text: text.into(), phase: None }
    }

    /// Returns a call of a function.
    #[must_use]
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::Call { kind: CallType::Function, id: id.into(), name: name.into(), arguments: arguments.into() }
    }

    /// Returns the prefix of the item's id.
    pub(super) const fn prefix(&self) -> &'static str {
        match self {
            Self::Reasoning(_) => "rs",
            Self::Message { .. } | Self::Refusal(_) => "msg",
            Self::Call { kind, .. } => kind.prefix(),
            Self::WebSearch => "ws",
            Self::Compaction => "cmp",
            Self::Unknown => "new",
        }
    }

    /// Returns `true` if the item's id belongs to the reasoning before it.
    pub(super) const fn requires_reasoning(&self) -> bool {
        match self {
            Self::Message { .. } | Self::Refusal(_) | Self::WebSearch => true,
            Self::Call { kind, .. } => !matches!(kind, CallType::McpApproval),
            // Items before a compaction may be left out.
            Self::Compaction | Self::Reasoning(_) | Self::Unknown => false,
        }
    }

    /// Returns `true` if a program sends the item with its id to other providers, too: an answer names a request for
    /// approval by its id, and a program does not know which field of an unknown item is an id. Programs leave out the
    /// ids of all other items. Mock providers therefore give such items ids that no other provider gives.
    pub(super) const fn keeps_its_id(&self) -> bool {
        matches!(self, Self::Unknown | Self::Call { kind: CallType::McpApproval, .. })
    }

    /// Returns the JSON of the item with this id. `encrypted` is its encrypted content, if it has some.
    pub(super) fn json(&self, id: &str, encrypted: &str) -> Value {
        let message = |content: Value| json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [content]});
        match self {
            Self::Reasoning(texts) => {
                let summary: Vec<Value> =
                    texts.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
                json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted})
            }
            Self::Message { text, phase } => {
                let mut message =
                    message(json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}));
                if let Some(phase) = phase {
                    message["phase"] = json!(phase);
                }
                message
            }
            Self::Refusal(text) => message(json!({"type": "refusal", "refusal": text})),
            Self::Call { kind, id: call_id, name, arguments } => call(*kind, id, call_id, name, arguments),
            Self::WebSearch => {
                let action = json!({"type": "search", "query": "news"});
                json!({"id": id, "type": "web_search_call", "status": "completed", "action": action})
            }
            Self::Compaction => json!({"id": id, "type": "compaction", "encrypted_content": encrypted}),
            Self::Unknown => json!({"id": id, "type": "new_thing", "level": 1.5}),
        }
    }
}

fn call(kind: CallType, id: &str, call_id: &str, name: &str, arguments: &str) -> Value {
    let mut call = json!({"id": id, "type": kind.name(), "status": "completed", "call_id": call_id});
    let fields = match kind {
        CallType::Function => json!({"name": name, "arguments": arguments}),
        CallType::Custom => json!({"name": name, "input": arguments}),
        CallType::ToolSearch => json!({"execution": "client", "arguments": {"query": arguments}}),
        CallType::LocalShell => json!({"action": {"type": "exec", "command": [arguments], "env": {}}}),
        CallType::Shell => json!({"action": {"commands": [arguments]}}),
        CallType::Computer => json!({"action": {"type": "screenshot"}, "pending_safety_checks": []}),
        CallType::ApplyPatch => json!({"operation": {"type": "delete_file", "path": arguments}}),
        CallType::McpApproval => {
            return json!({"id": id, "type": kind.name(), "server_label": "server", "name": name, "arguments": arguments});
        }
    };
    if let (Value::Object(call), Value::Object(fields)) = (&mut call, fields) {
        call.extend(fields);
    }
    call
}

/// Returns the output of a call item, or `None` for an item that is no call.
pub(super) fn answer(item: &Value, text: &str) -> Option<String> {
    let kind = CallType::ALL.into_iter().find(|kind| item["type"] == kind.name())?;
    let (name, call_id) = (kind.output_name(), &item["call_id"]);
    let output = match kind {
        CallType::Function | CallType::Custom | CallType::LocalShell => json!(text),
        CallType::ApplyPatch => {
            return Some(json!({"type": name, "call_id": call_id, "status": "completed", "output": text}).to_string());
        }
        CallType::Shell => json!([{"stdout": text, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]),
        CallType::Computer => json!({"type": "computer_screenshot", "image_url": "data:image/png;base64,AAAA"}),
        CallType::ToolSearch => {
            let output = json!({"type": name, "call_id": call_id, "execution": "client", "tools": []});
            return Some(output.to_string());
        }
        CallType::McpApproval => {
            return Some(json!({"type": name, "approval_request_id": item["id"], "approve": true}).to_string());
        }
    };
    Some(json!({"type": name, "call_id": call_id, "output": output}).to_string())
}
