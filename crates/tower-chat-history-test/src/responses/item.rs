//! The items of a request, and the rules of their fields.

use serde_json::Value;

use super::{
    refusal::{Reason, Refusal},
    reply::CallType,
};

/// The largest number of characters of the id that connects a call and its output.
const MAX_CALL_ID: usize = 64;

/// The types of the parts of a model's message.
const OF_MODEL: [&str; 2] = ["output_text", "refusal"];

/// The types of all parts.
const PARTS: [&str; 9] = [
    "input_text",
    "input_image",
    "input_audio",
    "output_text",
    "refusal",
    "input_file",
    "computer_screenshot",
    "summary_text",
    "encrypted_content",
];

/// Reads the items of a request's body.
pub(super) fn read_input(body: &str) -> Result<Vec<Item>, Refusal> {
    let body: Value = serde_json::from_str(body).map_err(|_| Refusal::of(Reason::Unreadable, None))?;
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
        _ => Err(Refusal::of(Reason::Unreadable, None)),
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
        let kind = match (&json["type"], &json["role"], &json["id"]) {
            (Value::String(kind), ..) => kind.clone(),
            (Value::Null, Value::String(_), _) => "message".to_owned(),
            (Value::Null, _, Value::String(_)) => "item_reference".to_owned(),
            _ => return Err(Refusal::missing(position, "type")),
        };

        let role = json["role"].as_str().unwrap_or_default();
        if kind == "message" && !["user", "assistant", "system", "developer"].contains(&role) {
            return Err(Refusal::invalid(position, "role", role));
        }
        if kind == "reasoning" && !json["summary"].is_array() {
            return Err(Refusal::missing(position, "summary"));
        }
        check_fields(position, &kind, role, json)?;

        let mut calls = None;
        let mut answers = None;
        let is_of_server = json["execution"] == "server";
        for of in CallType::ALL.into_iter().filter(|_| !is_of_server) {
            if of.name() == kind {
                let field = if of == CallType::McpApproval { "id" } else { "call_id" };
                calls = Some((of, call_id(position, json, field)?));
            }
            if of.output_name() == kind {
                let field = match of {
                    CallType::McpApproval => "approval_request_id",
                    // OpenAI's reference calls the field `id`, and its guide calls it `call_id`.
                    CallType::LocalShell if json["call_id"].is_null() => "id",
                    _ => "call_id",
                };
                answers = Some((of, call_id(position, json, field)?));
            }
        }
        let is_of_program = answers.is_some() || kind == "message" && role != "assistant";
        let id = json["id"].as_str().map(str::to_owned);
        let encrypted = json["encrypted_content"].as_str().map(str::to_owned);
        Ok(Self { id, encrypted, kind, calls, answers, is_of_program })
    }
}

/// Returns the id of a call, which this field must have.
fn call_id(position: usize, json: &Value, field: &str) -> Result<String, Refusal> {
    let id = json[field].as_str().filter(|id| !id.is_empty());
    id.map(str::to_owned).ok_or_else(|| Refusal::missing(position, field))
}

/// Checks the fields of an item, whose type is known.
fn check_fields(position: usize, kind: &str, role: &str, json: &Value) -> Result<(), Refusal> {
    check_id(position, kind, role, json)?;
    check_call_id(position, &json["call_id"])?;
    match kind {
        "message" => check_content(position, role, &json["content"], json.get("content").is_some()),
        "function_call" => {
            check_text(position, "name", json)?;
            if !json["name"].as_str().is_some_and(is_identifier) {
                return Err(Refusal::pattern(position, "name"));
            }
            check_text(position, "arguments", json)
        }
        "custom_tool_call" => {
            check_text(position, "name", json)?;
            check_text(position, "input", json)
        }
        _ if has_output(kind) && json["output"].is_null() => Err(Refusal::missing(position, "output")),
        _ => Ok(()),
    }
}

/// Returns `true` for outputs whose field `output` is required.
fn has_output(kind: &str) -> bool {
    use CallType::{Computer, Custom, Function, LocalShell, Shell};
    [Function, Custom, LocalShell, Shell, Computer].into_iter().any(|call| call.output_name() == kind)
}

/// Checks the id of the item itself. Ids of some types have a prefix.
fn check_id(position: usize, kind: &str, role: &str, json: &Value) -> Result<(), Refusal> {
    let Some(id) = json["id"].as_str() else { return Ok(()) };
    let prefix = match kind {
        "message" if role == "assistant" => "msg",
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        _ => "",
    };
    let rest = id.strip_prefix(prefix);
    if !id.is_empty() && rest.is_none() {
        return Err(Refusal::prefix(position, id, prefix));
    }
    let is_separated = prefix.is_empty() || rest.is_some_and(|rest| rest.starts_with('_'));
    if is_identifier(id) && is_separated { Ok(()) } else { Err(Refusal::invalid(position, "id", id)) }
}

fn check_call_id(position: usize, id: &Value) -> Result<(), Refusal> {
    let length = id.as_str().map_or(0, |id| id.chars().count());
    if length > MAX_CALL_ID { Err(Refusal::too_long(position, "call_id", MAX_CALL_ID, length)) } else { Ok(()) }
}

fn check_text(position: usize, field: &str, json: &Value) -> Result<(), Refusal> {
    match &json[field] {
        Value::String(_) => Ok(()),
        Value::Null => Err(Refusal::missing(position, field)),
        other => Err(Refusal::wrong_type(position, field, "a string", other)),
    }
}

fn check_content(position: usize, role: &str, content: &Value, is_there: bool) -> Result<(), Refusal> {
    let parts = match content {
        Value::String(_) => return Ok(()),
        Value::Array(parts) => parts,
        Value::Null if !is_there => return Err(Refusal::missing(position, "content")),
        other => return Err(Refusal::wrong_type(position, "content", "one of an array of objects or string", other)),
    };
    let allowed = if role == "assistant" { OF_MODEL.as_slice() } else { PARTS.as_slice() };
    for (at, part) in parts.iter().enumerate() {
        let kind = part["type"].as_str().unwrap_or_default();
        if !allowed.contains(&kind) {
            let field = if role == "assistant" { "" } else { ".type" };
            return Err(Refusal::part(position, &format!("content[{at}]{field}"), kind, allowed));
        }
    }
    Ok(())
}

/// Returns `true` for a text that matches `^[a-zA-Z0-9_-]+$`.
fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
