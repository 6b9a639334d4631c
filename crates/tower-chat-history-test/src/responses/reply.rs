//! Responses: their scripts, their bodies, and the events of their streams.

use serde_json::{Map, Value, json, value::RawValue};
use tower_chat_history_core::Usage;

use crate::util::pieces;

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
        match self {
            Self::Reasoning(texts) => {
                let summary: Vec<Value> =
                    texts.iter().map(|text| json!({"type": "summary_text", "text": text})).collect();
                json!({"id": id, "type": "reasoning", "summary": summary, "encrypted_content": encrypted})
            }
            Self::Message { text, phase } => {
                let content = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
                let mut message = message(id, &content);
                if let Some(phase) = phase {
                    message["phase"] = json!(phase);
                }
                message
            }
            Self::Refusal(text) => message(id, &json!({"type": "refusal", "refusal": text})),
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

fn message(id: &str, content: &Value) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [content]})
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
fn answer(item: &Value, text: &str) -> Option<String> {
    let kind = CallType::ALL.into_iter().find(|kind| item["type"] == kind.name())?;
    let name = kind.output_name();
    let call_id = &item["call_id"];

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

/// A kind of calls that a program answers. Each kind has ids of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallType {
    /// `function_call`.
    Function,
    /// `custom_tool_call`.
    Custom,
    /// `tool_search_call` with `"execution":"client"`.
    ToolSearch,
    /// `local_shell_call`.
    LocalShell,
    /// `shell_call`.
    Shell,
    /// `computer_call`.
    Computer,
    /// `apply_patch_call`.
    ApplyPatch,
    /// `mcp_approval_request`, whose own id is the id of the call.
    McpApproval,
}

impl CallType {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Function,
        Self::Custom,
        Self::ToolSearch,
        Self::LocalShell,
        Self::Shell,
        Self::Computer,
        Self::ApplyPatch,
        Self::McpApproval,
    ];

    /// Returns the type of the calls.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
            Self::ToolSearch => "tool_search_call",
            Self::LocalShell => "local_shell_call",
            Self::Shell => "shell_call",
            Self::Computer => "computer_call",
            Self::ApplyPatch => "apply_patch_call",
            Self::McpApproval => "mcp_approval_request",
        }
    }

    /// Returns the type of the outputs.
    pub(super) const fn output_name(self) -> &'static str {
        match self {
            Self::Function => "function_call_output",
            Self::Custom => "custom_tool_call_output",
            Self::ToolSearch => "tool_search_output",
            Self::LocalShell => "local_shell_call_output",
            Self::Shell => "shell_call_output",
            Self::Computer => "computer_call_output",
            Self::ApplyPatch => "apply_patch_call_output",
            Self::McpApproval => "mcp_approval_response",
        }
    }

    /// Returns the prefix of the ids of call items.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Function => "fc",
            Self::Custom => "ctc",
            Self::ToolSearch => "tsc",
            Self::LocalShell => "lsh",
            Self::Shell => "sh",
            Self::Computer => "cu",
            Self::ApplyPatch => "apc",
            Self::McpApproval => "mcpr",
        }
    }
}

/// A response that a [`ResponsesProvider`](super::ResponsesProvider) made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeResponse {
    /// The id of the response.
    pub id: String,
    /// The name of the model.
    pub model: String,
    /// The JSON of each item of `output`.
    pub output: Vec<String>,
    /// The reason why the response is incomplete, such as `max_output_tokens`. By default, it is complete.
    pub incomplete: Option<String>,
    /// The usage.
    pub usage: Usage,
    /// Further fields of the body, besides `output`.
    pub fields: Map<String, Value>,
}

impl MadeResponse {
    /// Returns the body of the response. The items have the same bytes as in [`output`](Self::output).
    #[must_use]
    pub fn body(&self) -> String {
        let (status, details) = match &self.incomplete {
            Some(reason) => ("incomplete", json!({"reason": reason})),
            None => ("completed", Value::Null),
        };
        let Usage { input_tokens, output_tokens, cached_input_tokens, .. } = self.usage;
        let mut head = self.head(status);
        head["incomplete_details"] = details;
        head["usage"] = json!({
            "input_tokens": input_tokens, "output_tokens": output_tokens,
            "total_tokens": input_tokens.saturating_add(output_tokens),
            "input_tokens_details": {"cached_tokens": cached_input_tokens.unwrap_or_default()},
            "output_tokens_details": {"reasoning_tokens": 0},
        });
        let head = head.to_string();
        format!(r#"{{"output":[{}],{}"#, self.output.join(","), head.trim_start_matches('{'))
    }

    /// Returns the server-sent events of a stream with this response, each with its name and its data. A delta has at
    /// most `chars` characters. The last event has the whole response.
    #[must_use]
    pub fn events(&self, chars: usize) -> Vec<String> {
        let mut begun = self.head("in_progress");
        begun["output"] = json!([]);
        begun["usage"] = Value::Null;
        let last = if self.incomplete.is_some() { "response.incomplete" } else { "response.completed" };
        events_of(&begun, &self.output, last, &self.body(), chars)
    }

    /// Returns the items of a response's body, as they are written, or `None` if the body has no list of items.
    #[must_use]
    pub fn items(body: &str) -> Option<Vec<String>> {
        #[derive(serde::Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            output: Vec<&'a RawValue>,
        }
        let Body { output } = serde_json::from_str(body).ok()?;
        Some(output.into_iter().map(|item| item.get().to_owned()).collect())
    }

    /// Returns an output for each call of the response, in order: the JSON of items that answer the calls.
    #[must_use]
    pub fn answers(&self, text: &str) -> Vec<String> {
        let items = self.output.iter().filter_map(|json| serde_json::from_str::<Value>(json).ok());
        items.filter_map(|item| answer(&item, text)).collect()
    }

    /// Returns the response without its items and its usage.
    fn head(&self, status: &str) -> Value {
        let mut head = json!({
            "id": self.id, "object": "response", "created_at": 0, "model": self.model, "status": status,
            "error": null, "incomplete_details": null, "store": false,
        });
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != "output") {
            head[name] = value.clone();
        }
        head
    }
}

/// Returns the events that stream these items. `last` is the type of the last event, which has the whole response.
fn events_of(begun: &Value, output: &[String], last: &str, response: &str, chars: usize) -> Vec<String> {
    let mut events = Events(Vec::new());
    for name in ["response.created", "response.in_progress"] {
        events.push(name, &format!(r#""response":{begun}"#));
    }

    for (index, json) in output.iter().enumerate() {
        let item: Value = serde_json::from_str(json).unwrap_or_default();
        let begun = begin(&item);
        events.push("response.output_item.added", &format!(r#""output_index":{index},"item":{begun}"#));
        for (name, mut fields) in parts(&item, chars) {
            fields["item_id"] = item["id"].clone();
            let fields = fields.to_string();
            events.push(name, &format!(r#""output_index":{index},{}"#, inner(&fields)));
        }
        events.push("response.output_item.done", &format!(r#""output_index":{index},"item":{json}"#));
    }

    events.push(last, &format!(r#""response":{response}"#));
    events.0
}

struct Events(Vec<String>);

impl Events {
    /// Adds an event with these fields.
    fn push(&mut self, name: &str, fields: &str) {
        let number = self.0.len();
        self.0.push(format!("event: {name}\ndata: {{\"type\":\"{name}\",\"sequence_number\":{number},{fields}}}\n\n"));
    }
}

/// Returns the fields of an object without its braces.
fn inner(object: &str) -> &str {
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default()
}

/// Returns an item as it is when it is added.
fn begin(item: &Value) -> Value {
    let mut begun = item.clone();
    for (name, empty) in
        [("content", json!([])), ("summary", json!([])), ("arguments", json!("")), ("input", json!(""))]
    {
        if begun[name].is_array() || begun[name].is_string() {
            begun[name] = empty;
        }
    }
    if begun["status"].is_string() {
        begun["status"] = "in_progress".into();
    }
    begun
}

/// The name of an event, and its fields.
type Part = (&'static str, Value);

/// Returns the events between the beginning and the end of an item.
fn parts(item: &Value, chars: usize) -> Vec<Part> {
    match item["type"].as_str().unwrap_or_default() {
        "message" => content_parts(item, chars),
        "reasoning" => summary_parts(item, chars),
        "function_call" => {
            let mut all = deltas("response.function_call_arguments.delta", &json!({}), &item["arguments"], chars);
            let done = json!({"name": item["name"], "arguments": item["arguments"]});
            all.push(("response.function_call_arguments.done", done));
            all
        }
        "custom_tool_call" => {
            let mut all = deltas("response.custom_tool_call_input.delta", &json!({}), &item["input"], chars);
            all.push(("response.custom_tool_call_input.done", json!({"input": item["input"]})));
            all
        }
        "web_search_call" => vec![
            ("response.web_search_call.in_progress", json!({})),
            ("response.web_search_call.searching", json!({})),
            ("response.web_search_call.completed", json!({})),
        ],
        _ => Vec::new(),
    }
}

fn content_parts(item: &Value, chars: usize) -> Vec<Part> {
    let mut all = Vec::new();
    for (index, part) in item["content"].as_array().into_iter().flatten().enumerate() {
        let (name, delta, done) = match part["type"].as_str() {
            Some("refusal") => ("refusal", "response.refusal.delta", "response.refusal.done"),
            _ => ("text", "response.output_text.delta", "response.output_text.done"),
        };
        let mut empty = part.clone();
        empty[name] = "".into();
        all.push(("response.content_part.added", json!({"content_index": index, "part": empty})));
        all.extend(deltas(delta, &json!({"content_index": index}), &part[name], chars));
        all.push((done, json!({"content_index": index, name: part[name]})));
        all.push(("response.content_part.done", json!({"content_index": index, "part": part})));
    }
    all
}

fn summary_parts(item: &Value, chars: usize) -> Vec<Part> {
    let mut all = Vec::new();
    for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
        let mut empty = part.clone();
        empty["text"] = "".into();
        all.push(("response.reasoning_summary_part.added", json!({"summary_index": index, "part": empty})));
        let place = json!({"summary_index": index});
        all.extend(deltas("response.reasoning_summary_text.delta", &place, &part["text"], chars));
        let done = json!({"summary_index": index, "text": part["text"]});
        all.push(("response.reasoning_summary_text.done", done));
        all.push(("response.reasoning_summary_part.done", json!({"summary_index": index, "part": part})));
    }
    all
}

/// Returns the deltas of a text, each with these fields.
fn deltas(name: &'static str, fields: &Value, text: &Value, chars: usize) -> Vec<Part> {
    let mut all = Vec::new();
    for piece in pieces(text.as_str().unwrap_or_default(), chars) {
        let mut fields = fields.clone();
        fields["delta"] = piece.into();
        all.push((name, fields));
    }
    all
}
