//! The reasons why the provider refuses a request, with its status and wording.

use serde_json::{Value, json};

use super::reply::CallType;

/// A request that the provider refuses. Its text is the message of the provider's error. The text has ids and types of
/// items, but no contents.
///
/// With the feature `openai` or `server`, it converts into an [`ApiFailure`](crate::ApiFailure).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    reason: Reason,
    message: String,
    param: Option<String>,
}

/// The reason why the provider refuses a request. Positions are indexes of items in `input`, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The body is not a request with items.
    Unreadable,
    /// The request has no item.
    Empty,
    /// The request has a `previous_response_id`, but nothing is stored.
    PreviousResponse,
    /// The request has a `conversation`, but nothing is stored.
    Conversation,
    /// The request has both a `previous_response_id` and a `conversation`.
    TwoStates,
    /// An item lacks a required field.
    MissingField {
        /// The position of the item.
        position: usize,
    },
    /// A field of an item has a value that is not allowed.
    InvalidValue {
        /// The position of the item.
        position: usize,
    },
    /// A field of an item has a value of another type.
    WrongType {
        /// The position of the item.
        position: usize,
    },
    /// The id that connects a call and its output has more than 64 characters.
    LongCallId {
        /// The position of the item.
        position: usize,
    },
    /// An item has the id of an earlier one.
    RepeatedItem {
        /// The position of the second item.
        position: usize,
    },
    /// Reasoning is not followed by the item that it was made for.
    MissingNext {
        /// The position of the reasoning.
        position: usize,
    },
    /// The reasoning that an item's id belongs to is not directly before it.
    MissingReasoning {
        /// The position of the item.
        position: usize,
    },
    /// Encrypted content was made by another origin, or was changed.
    ForeignContent {
        /// The position of the item.
        position: usize,
    },
    /// An item is a reference, or reasoning without encrypted content, but nothing is stored.
    NotStored {
        /// The position of the item.
        position: usize,
    },
    /// A call has no output of its kind after it.
    UnansweredCall {
        /// The position of the call.
        position: usize,
    },
    /// An output has no call of its kind before it that lacks an output.
    UnknownCall {
        /// The position of the output.
        position: usize,
    },
}

impl Refusal {
    /// Returns the reason.
    #[must_use]
    pub const fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        if matches!(self.reason, Reason::NotStored { .. } | Reason::Conversation) { 404 } else { 400 }
    }

    /// Returns the `code` of the provider's error, if it has one.
    #[must_use]
    pub const fn code(&self) -> Option<&'static str> {
        match self.reason {
            Reason::PreviousResponse => Some("previous_response_not_found"),
            Reason::Empty | Reason::MissingField { .. } => Some("missing_required_parameter"),
            Reason::TwoStates => Some("mutually_exclusive_parameters"),
            Reason::InvalidValue { .. } => Some("invalid_value"),
            Reason::WrongType { .. } => Some("invalid_type"),
            Reason::LongCallId { .. } => Some("string_above_max_length"),
            Reason::ForeignContent { .. } => Some("invalid_encrypted_content"),
            _ => None,
        }
    }

    /// Returns the `param` of the provider's error, if it has one.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    /// Returns the error's type.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        "invalid_request_error"
    }

    /// Returns the body of the provider's response.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { message, param, .. } = self;
        json!({"error": {"message": message, "type": self.kind(), "param": param, "code": self.code()}})
    }

    /// Returns the body of the provider's response, as text.
    #[must_use]
    pub fn body(&self) -> String {
        self.to_json().to_string()
    }

    /// Creates the refusal of a request. `id` is that of the response or the conversation that it names.
    pub(super) fn of(reason: Reason, id: Option<&str>) -> Self {
        let (message, param) = match (&reason, id) {
            (Reason::PreviousResponse, Some(id)) => {
                (format!("Previous response with id '{id}' not found."), Some("previous_response_id"))
            }
            (Reason::Conversation, Some(id)) => (format!("Conversation with id '{id}' not found."), Some("conversation")),
            (Reason::TwoStates, _) => (
                "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only providing \
                 one of: 'previous_response_id' or 'conversation'."
                    .to_owned(),
                None,
            ),
            (Reason::Empty, _) => ("Missing required parameter: 'input'.".to_owned(), Some("input")),
            _ => ("We could not parse the JSON body of your request.".to_owned(), None),
        };
        Self { reason, message, param: param.map(str::to_owned) }
    }

    pub(super) fn missing(position: usize, field: &str) -> Self {
        let param = format!("input[{position}].{field}");
        let message = format!("Missing required parameter: '{param}'.");
        Self { reason: Reason::MissingField { position }, message, param: Some(param) }
    }

    pub(super) fn invalid(position: usize, field: &str, value: &str) -> Self {
        let param = format!("input[{position}].{field}");
        let message = match field {
            "role" => format!(
                "Invalid value: '{value}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            ),
            _ => format!(
                "Invalid '{param}': '{value}'. Expected an ID that contains letters, numbers, underscores, or dashes, \
                 but this value contained additional characters."
            ),
        };
        Self { reason: Reason::InvalidValue { position }, message, param: Some(param) }
    }

    /// Creates the refusal of an id without the prefix of its type.
    pub(super) fn prefix(position: usize, id: &str, prefix: &str) -> Self {
        let param = format!("input[{position}].id");
        let message = format!("Invalid '{param}': '{id}'. Expected an ID that begins with '{prefix}'.");
        Self { reason: Reason::InvalidValue { position }, message, param: Some(param) }
    }

    /// Creates the refusal of a name with other characters.
    pub(super) fn pattern(position: usize, field: &str) -> Self {
        let param = format!("input[{position}].{field}");
        let message = format!(
            "Invalid '{param}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$'."
        );
        Self { reason: Reason::InvalidValue { position }, message, param: Some(param) }
    }

    /// Creates the refusal of a part whose type is not allowed in its message.
    pub(super) fn part(position: usize, field: &str, kind: &str, allowed: &[&str]) -> Self {
        let (last, first) = allowed.split_last().unwrap_or((&"", &[]));
        let comma = if first.len() > 1 { "," } else { "" };
        let message =
            format!("Invalid value: '{kind}'. Supported values are: '{}'{comma} and '{last}'.", first.join("', '"));
        let param = Some(format!("input[{position}].{field}"));
        Self { reason: Reason::InvalidValue { position }, message, param }
    }

    pub(super) fn wrong_type(position: usize, field: &str, expected: &str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) if number.is_f64() => "a decimal",
            Value::Number(_) => "an integer",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        let param = format!("input[{position}].{field}");
        let message = format!("Invalid type for '{param}': expected {expected}, but got {found} instead.");
        Self { reason: Reason::WrongType { position }, message, param: Some(param) }
    }

    pub(super) fn too_long(position: usize, field: &str, limit: usize, length: usize) -> Self {
        let param = format!("input[{position}].{field}");
        let message = format!(
            "Invalid '{param}': string too long. Expected a string with maximum length {limit}, but got a string with \
             length {length} instead."
        );
        Self { reason: Reason::LongCallId { position }, message, param: Some(param) }
    }

    /// Creates the refusal of an item with this id.
    pub(super) fn of_item(reason: Reason, id: &str) -> Self {
        let message = match &reason {
            Reason::MissingNext { .. } => {
                format!("Item '{id}' of type 'reasoning' was provided without its required following item.")
            }
            Reason::RepeatedItem { .. } => {
                format!("Duplicate item found with id {id}. Remove duplicate items from your input and try again.")
            }
            Reason::ForeignContent { .. } => format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted content could not be \
                 decrypted or parsed."
            ),
            _ => format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try again \
                 with `store` set to true, or remove this item from your input."
            ),
        };
        let param = (!matches!(reason, Reason::ForeignContent { .. })).then(|| "input".to_owned());
        Self { reason, message, param }
    }

    /// Creates the refusal of an item without the reasoning that it requires.
    pub(super) fn missing_reasoning(position: usize, kind: &str, id: &str, required: &str) -> Self {
        let message =
            format!("Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: '{required}'.");
        Self { reason: Reason::MissingReasoning { position }, message, param: Some("input".to_owned()) }
    }

    pub(super) fn of_call(reason: Reason, (call, id): &(CallType, String)) -> Self {
        let message = match (&reason, call) {
            (Reason::UnansweredCall { .. }, CallType::McpApproval) => {
                format!("No approval response found for approval request {id}.")
            }
            (Reason::UnansweredCall { .. }, _) => {
                format!("No tool output found for {} {id}.", words(call.name()))
            }
            (_, CallType::McpApproval) => format!("No approval request found with id {id}."),
            _ => format!("No tool call found for {} with call_id {id}.", words(call.output_name())),
        };
        Self { reason, message, param: Some("input".to_owned()) }
    }
}

/// Returns the name of a type in errors.
fn words(name: &str) -> String {
    name.replace('_', " ")
}
