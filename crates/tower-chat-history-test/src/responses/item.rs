//! The items of a request.

use serde_json::Value;

use super::{
    fields,
    refusal::{Reason, Refusal},
};

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
    #[must_use]
    pub const fn output_name(self) -> &'static str {
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

/// An item of a request.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: String,
    pub(super) id: Option<String>,
    pub(super) encrypted: Option<String>,
    /// A call that a program answers, with its id.
    pub(super) calls: Option<(CallType, String)>,
    /// The output of such a call.
    pub(super) answers: Option<(CallType, String)>,
    /// True for items that only a program makes: messages of other roles than the model's, and outputs.
    pub(super) is_of_program: bool,
}

impl Item {
    /// Reads the item at this position.
    pub(super) fn read(position: usize, json: &Value) -> Result<Self, Refusal> {
        let missing = |field: &str| Refusal::missing(position, field);
        let text = |field: &str| json[field].as_str().map(str::to_owned);
        let kind = match (&json["type"], &json["role"], &json["id"]) {
            (Value::String(kind), ..) => kind.clone(),
            (Value::Null, Value::String(_), _) => "message".to_owned(),
            (Value::Null, _, Value::String(_)) => "item_reference".to_owned(),
            _ => return Err(missing("type")),
        };
        let role = text("role").unwrap_or_default();
        if kind == "message" && !["user", "assistant", "system", "developer"].contains(&role.as_str()) {
            return Err(Refusal::invalid(position, "role", &role));
        }
        if kind == "reasoning" && !json["summary"].is_array() {
            return Err(missing("summary"));
        }
        fields::check(position, &kind, &role, json)?;
        let is_of_server = json["execution"] == "server";
        let call_id = |of: CallType, field: &'static str| {
            let id = text(field).filter(|id| !id.is_empty()).ok_or_else(|| missing(field))?;
            Ok((of, id))
        };
        let call = CallType::ALL.into_iter().find(|of| of.name() == kind && !is_of_server);
        let calls = call.map(|of| call_id(of, if of == CallType::McpApproval { "id" } else { "call_id" }));
        let output = CallType::ALL.into_iter().find(|of| of.output_name() == kind && !is_of_server);
        let answers = output.map(|of| match of {
            CallType::McpApproval => call_id(of, "approval_request_id"),
            // OpenAI's reference calls the field `id`, and its guide calls it `call_id`.
            CallType::LocalShell if json["call_id"].is_null() => call_id(of, "id"),
            _ => call_id(of, "call_id"),
        });
        let (calls, answers) = (calls.transpose()?, answers.transpose()?);
        let is_of_program = answers.is_some() || kind == "message" && role != "assistant";
        Ok(Self { id: text("id"), encrypted: text("encrypted_content"), kind, calls, answers, is_of_program })
    }
}

/// Reads the items of a request's body.
pub(super) fn read_input(body: &str) -> Result<Vec<Item>, Refusal> {
    let unreadable = || Refusal::of(Reason::Unreadable, None);
    let body: Value = serde_json::from_str(body).map_err(|_| unreadable())?;
    let previous = body["previous_response_id"].as_str();
    // A conversation is an id, or an object with it.
    let conversation = &body["conversation"];
    match (previous, conversation.as_str().or_else(|| conversation["id"].as_str())) {
        (Some(_), Some(_)) => return Err(Refusal::of(Reason::TwoStates, None)),
        (Some(id), None) => return Err(Refusal::of(Reason::PreviousResponse, Some(id))),
        (None, Some(id)) => return Err(Refusal::of(Reason::Conversation, Some(id))),
        (None, None) => {}
    }
    match &body["input"] {
        Value::String(text) => {
            let message = serde_json::json!({"role": "user", "content": text});
            Ok(vec![Item::read(0, &message)?])
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().map(|(position, json)| Item::read(position, json)).collect()
        }
        Value::Array(_) | Value::Null => Err(Refusal::of(Reason::Empty, None)),
        _ => Err(unreadable()),
    }
}
