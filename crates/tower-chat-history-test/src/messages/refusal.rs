//! The reasons why the provider refuses a request.

use serde_json::{Value, json};

/// A request that the API refuses. Its text is the message of the API's error. The text has ids of calls,
/// names of fields and types of blocks, but no contents of messages.
///
/// With the feature `openai` or `server`, it converts into an [`ApiFailure`](crate::ApiFailure).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    reason: Reason,
    message: String,
}

/// The reason why the API refuses a request. Messages and blocks are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The body is not a request.
    Unreadable,
    /// A required field is missing.
    MissingField {
        /// The name of the field.
        name: &'static str,
    },
    /// There are no messages.
    NoMessages,
    /// A message has another role than `user`, `assistant` and `system`.
    Role {
        /// The position of the message.
        message: usize,
    },
    /// The first message is not the user's, and does not begin with a compaction.
    FirstMessage,
    /// The last message is a reply that was not paused, which the model would have to continue.
    Prefill,
    /// A system message is the first one, follows a reply or another system message, or is before a message of the
    /// user.
    SystemMessage {
        /// The position of the message.
        message: usize,
    },
    /// A message has no content.
    EmptyMessage {
        /// The position of the message.
        message: usize,
    },
    /// A text is empty.
    EmptyText {
        /// The position of the message.
        message: usize,
    },
    /// All texts of a message have only white space.
    BlankText {
        /// The position of the message.
        message: usize,
    },
    /// A failed result has no content.
    EmptyError {
        /// The position of the message.
        message: usize,
        /// The position of the result.
        block: usize,
    },
    /// A block may not be said by this role, such as a call of the user.
    WrongRole {
        /// The position of the message.
        message: usize,
        /// The position of the block.
        block: usize,
    },
    /// A block lacks a field, such as a signature.
    BlockField {
        /// The position of the message.
        message: usize,
        /// The position of the block.
        block: usize,
        /// The name of the field.
        name: &'static str,
    },
    /// A message or a block has a field that the API does not know.
    ExtraField {
        /// The position of the message.
        message: usize,
        /// The position of the block, if it is a field of a block.
        block: Option<usize>,
        /// The name of the field. For a field of a block, it begins with the type.
        name: String,
    },
    /// A block has an unknown type.
    UnknownBlock {
        /// The position of the message.
        message: usize,
        /// The position of the block.
        block: usize,
        /// The type.
        kind: String,
    },
    /// A field of a block has a value that is not allowed, such as the id of a call with a colon.
    BlockValue {
        /// The position of the message.
        message: usize,
        /// The position of the block. For a block in a result, it is the position of the result.
        block: usize,
        /// The field, such as `tool_use.id` or `image.source.base64.media_type`.
        name: &'static str,
    },
    /// The name of a called tool has more than 200 characters.
    LongToolName {
        /// The position of the message.
        message: usize,
        /// The position of the call.
        block: usize,
    },
    /// Two calls have the same id.
    RepeatedCall {
        /// The position of the message.
        message: usize,
        /// The position of the second call.
        block: usize,
    },
    /// Calls have no results at the beginning of the next message.
    UnansweredCalls {
        /// The position of the message with the calls.
        message: usize,
        /// The ids of the calls.
        ids: Vec<String>,
    },
    /// A result answers no call of the message before it.
    UnexpectedResult {
        /// The position of the message.
        message: usize,
        /// The position of the result.
        block: usize,
        /// The id that the result names.
        id: String,
    },
    /// A call has a second result.
    RepeatedResult {
        /// The position of the message.
        message: usize,
        /// The position of the second result.
        block: usize,
        /// The id of the call.
        id: String,
    },
    /// A call of a server tool has no result.
    UnansweredServerCall {
        /// The position of the message.
        message: usize,
        /// The id of the call.
        id: String,
    },
    /// The result of a server tool has no call before it.
    UnexpectedServerResult {
        /// The position of the message.
        message: usize,
        /// The position of the result.
        block: usize,
        /// The id that the result names.
        id: String,
    },
    /// The request has more than four marks for the cache.
    CacheMarks {
        /// The number of marks.
        found: usize,
    },
    /// A mark for one hour is after a mark for five minutes.
    CacheOrder {
        /// The place of the block with the later mark, such as `messages.0.content.1`.
        place: String,
    },
    /// A text of the instructions is empty.
    EmptySystem,
    /// An empty text has a mark for the cache.
    MarkedEmptyText {
        /// The position of the message.
        message: usize,
        /// The position of the text.
        block: usize,
    },
    /// A reply ends with thinking.
    LastThinking {
        /// The position of the message.
        message: usize,
    },
    /// A signature is not that of its thinking, or of this provider.
    InvalidSignature {
        /// The position of the message.
        message: usize,
        /// The position of the thinking.
        block: usize,
    },
    /// Thinking was made after other instructions, tools, messages or thinking.
    OtherConversation {
        /// The position of the message.
        message: usize,
        /// The position of the thinking.
        block: usize,
    },
    /// The last reply has thinking, but not all that it was made with.
    ChangedThinking {
        /// The position of the message.
        message: usize,
    },
    /// The last reply has no thinking, the request ends with the results of its calls, and thinking is enabled with a
    /// budget.
    MissingThinking {
        /// The position of the message.
        message: usize,
    },
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self { message: wording(&reason), reason }
    }
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
        400
    }

    /// Returns the error's type.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        "invalid_request_error"
    }

    /// Returns the body of the response.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let error = json!({"type": self.kind(), "message": self.message});
        json!({"type": "error", "error": error, "request_id": "req_mock"})
    }

    /// Returns the body of the response, as text.
    #[must_use]
    pub fn body(&self) -> String {
        self.to_json().to_string()
    }
}

/// The types of blocks that the API knows, besides the results of server tools.
pub(super) const BLOCK_TYPES: [&str; 13] = [
    "compaction",
    "connector_text",
    "container_upload",
    "document",
    "image",
    "mcp_tool_use",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
];

/// Returns the message of the API's error.
fn wording(reason: &Reason) -> String {
    match reason {
        Reason::Unreadable => "The request body is not valid JSON.".into(),
        Reason::MissingField { name } => format!("{name}: Field required"),
        Reason::NoMessages => "messages: at least one message is required".into(),
        Reason::Role { message } => {
            format!("messages.{message}.role: Input should be 'user', 'assistant' or 'system'")
        }
        Reason::FirstMessage => "messages: first message must use the \"user\" role".into(),
        Reason::Prefill => {
            "This model does not support assistant message prefill. The conversation must end with a user message."
                .into()
        }
        Reason::SystemMessage { message: 0 } => "messages.0: use the top-level 'system' parameter for the initial \
             system prompt; the directive-only form (content: [] with output_config) is accepted at any position"
            .into(),
        Reason::SystemMessage { message } => format!(
            "messages.{message}: a `system` message must follow a `user` message, and must be the last message or be \
             followed by an `assistant` message"
        ),
        Reason::EmptyMessage { message } => format!(
            "messages.{message}: all messages must have non-empty content except for the optional final assistant \
             message"
        ),
        Reason::EmptyText { .. } => "messages: text content blocks must be non-empty".into(),
        Reason::BlankText { .. } => "messages: text content blocks must contain non-whitespace text".into(),
        Reason::EmptyError { message, block } => {
            format!("messages.{message}.content.{block}.tool_result: content cannot be empty if `is_error` is true")
        }
        Reason::WrongRole { message, block } => {
            format!("messages.{message}.content.{block}: a block of this type cannot have this role")
        }
        Reason::BlockField { message, block, name } => {
            format!("messages.{message}.content.{block}.{name}: Field required")
        }
        Reason::ExtraField { .. }
        | Reason::UnknownBlock { .. }
        | Reason::BlockValue { .. }
        | Reason::LongToolName { .. } => wording_of_fields(reason),
        Reason::EmptySystem => "system: text content blocks must be non-empty".into(),
        Reason::RepeatedCall { message, block } => {
            format!("messages.{message}.content.{block}: `tool_use` ids must be unique")
        }
        Reason::CacheMarks { found } => {
            format!("A maximum of 4 blocks with cache_control may be provided. Found {found}.")
        }
        Reason::CacheOrder { place } => format!(
            "{place}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control \
             block. Note that blocks are processed in the following order: `tools`, `system`, `messages`."
        ),
        Reason::MarkedEmptyText { message, block } => {
            format!("messages.{message}.content.{block}.text: cache_control cannot be set for empty text blocks")
        }
        Reason::UnansweredCalls { .. }
        | Reason::UnexpectedResult { .. }
        | Reason::RepeatedResult { .. }
        | Reason::UnansweredServerCall { .. }
        | Reason::UnexpectedServerResult { .. } => wording_of_pairing(reason),
        Reason::LastThinking { .. }
        | Reason::InvalidSignature { .. }
        | Reason::OtherConversation { .. }
        | Reason::ChangedThinking { .. }
        | Reason::MissingThinking { .. } => wording_of_thinking(reason),
    }
}

fn wording_of_fields(reason: &Reason) -> String {
    match reason {
        Reason::ExtraField { message, block, name } => {
            let place = block.map(|block| format!(".content.{block}")).unwrap_or_default();
            format!("messages.{message}{place}.{name}: Extra inputs are not permitted")
        }
        Reason::UnknownBlock { message, block, kind } => format!(
            "messages.{message}.content.{block}: Input tag '{kind}' found using 'type' does not match any of the \
             expected tags: '{}'",
            BLOCK_TYPES.join("', '")
        ),
        Reason::BlockValue { message, block, name } => {
            let expected = match *name {
                "tool_use.name" => "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
                "tool_use.input" => "Input should be a valid dictionary",
                "image.source.base64.media_type" => {
                    "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
                }
                "document.source.base64.media_type" => "Input should be 'application/pdf'",
                _ => "String should match pattern '^[a-zA-Z0-9_-]+$'",
            };
            format!("messages.{message}.content.{block}.{name}: {expected}")
        }
        Reason::LongToolName { message, block } => {
            format!("messages.{message}.content.{block}.tool_use.name: String should have at most 200 characters")
        }
        _ => String::new(),
    }
}

fn wording_of_pairing(reason: &Reason) -> String {
    match reason {
        Reason::UnansweredCalls { message, ids } => format!(
            "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message.",
            ids.join(", ")
        ),
        Reason::UnexpectedResult { message, block, id } => format!(
            "messages.{message}.content.{block}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
        Reason::RepeatedResult { message, block, id } => format!(
            "messages.{message}.content.{block}: each tool_use must have a single result. Found multiple `tool_result` \
             blocks with id: {id}"
        ),
        Reason::UnansweredServerCall { message, id } => {
            format!("messages.{message}: server tool use with id `{id}` was found without a corresponding result block")
        }
        Reason::UnexpectedServerResult { message, block, id } => format!(
            "messages.{message}.content.{block}: unexpected `tool_use_id` found in the result of a server tool: {id}. \
             Each such block must have a corresponding `server_tool_use` block before it."
        ),
        _ => String::new(),
    }
}

fn wording_of_thinking(reason: &Reason) -> String {
    match reason {
        Reason::LastThinking { message } => {
            format!("messages.{message}: The final block in an assistant message cannot be `thinking`.")
        }
        Reason::InvalidSignature { message, block } => invalid_signature(*message, *block),
        Reason::OtherConversation { message, block } => format!(
            "{}. The block is bound to a different conversation. Remove the block, or set \
             `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\". That setting requires the \
             `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header.",
            invalid_signature(*message, *block)
        ),
        Reason::ChangedThinking { message } => format!(
            "messages.{message}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
             modified. These blocks must remain as they were in the original response."
        ),
        Reason::MissingThinking { message } => format!(
            "messages.{message}.content.0.type: Expected `thinking` or `redacted_thinking`, but found another block. \
             When `thinking` is enabled, a final `assistant` message must start with a thinking block. We recommend you \
             include thinking blocks from previous turns. To avoid this requirement, disable `thinking`."
        ),
        _ => String::new(),
    }
}

fn invalid_signature(message: usize, block: usize) -> String {
    format!("messages.{message}.content.{block}: Invalid `signature` in `thinking` block")
}
