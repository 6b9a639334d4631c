//! The reasons why the provider refuses a request.

use serde_json::{Value, json};

use super::wording;

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
        Self { message: wording::of(&reason), reason }
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
