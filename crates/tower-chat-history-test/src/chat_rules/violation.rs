//! The violations of the chat rules.

/// A violation of the chat rules. Positions are indexes of messages, counted from 0. The texts of these errors are
/// OpenAI's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleViolation {
    /// The prompt has no message.
    #[error(
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )]
    Empty,
    /// The last assistant message before a tool result does not have its call, or an earlier result has answered the
    /// call.
    #[error("Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous message.")]
    OrphanResult {
        /// The position of the result.
        position: usize,
        /// The id of the call that it names.
        id: String,
    },
    /// Two calls of an assistant message have the same id, and each has a result.
    #[error(
        "Invalid parameter: Duplicate value for 'tool_call_id' of '{id}', in messages[{first}] and messages[{position}]."
    )]
    RepeatedResult {
        /// The position of the second result.
        position: usize,
        /// The position of the first result.
        first: usize,
        /// The id of the call.
        id: String,
    },
    /// Calls are not answered directly after their message.
    #[error(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    )]
    UnansweredCalls {
        /// The position of the assistant message.
        position: usize,
        /// The ids of the calls without a result.
        ids: Vec<String>,
    },
    /// An assistant message has an empty list of calls.
    #[error(
        "Invalid 'messages[{position}].tool_calls': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyToolCalls {
        /// The position of the message.
        position: usize,
    },
    /// The calls of an assistant message are not an array.
    #[error("Invalid type for 'messages[{position}].tool_calls': expected an array of objects.")]
    CallsNotArray {
        /// The position of the message.
        position: usize,
    },
    /// A call is not an object, or has no id, or an id that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_calls[{call}].id'.")]
    MissingCallId {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
    },
    /// A tool result has no call id, or one that is empty or not text.
    #[error("Missing required parameter: 'messages[{position}].tool_call_id'.")]
    MissingResultId {
        /// The position of the result.
        position: usize,
    },
    /// The id of a call has more than 64 characters.
    #[error(
        "Invalid 'messages[{position}].tool_calls[{call}].id': string too long. Expected a string with maximum length \
         64, but got a string with length {length} instead."
    )]
    LongCallId {
        /// The position of the message.
        position: usize,
        /// The index of the call, from 0.
        call: usize,
        /// The number of characters.
        length: usize,
    },
    /// An assistant message has no content, call, refusal or audio.
    #[error("Invalid value for 'content': expected a string, got null.")]
    BlankReply {
        /// The position of the message.
        position: usize,
    },
    /// A message of another role has no content.
    #[error("Invalid value for 'content': expected a string, got null.")]
    MissingContent {
        /// The position of the message.
        position: usize,
    },
    /// The content of a message is an empty list.
    #[error(
        "Invalid 'messages[{position}].content': empty array. \
         Expected an array with minimum length 1, but got an empty array instead."
    )]
    EmptyContent {
        /// The position of the message.
        position: usize,
    },
    /// A message has an unknown role.
    #[error(
        "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
         'developer'."
    )]
    UnknownRole {
        /// The position of the message.
        position: usize,
        /// The role.
        role: String,
    },
}
