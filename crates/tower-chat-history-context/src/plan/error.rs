//! The errors of calls that cannot be sent.

use tower_chat_history_core::{ForeignShape, Seq};

use crate::budget::DoesNotFit;

/// A list that cannot be made to fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// The list is not a valid prompt.
    #[error("the messages are not a valid prompt: {0}")]
    Input(#[from] InputError),
    /// The messages that have to be sent are too large.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
}

/// An input that cannot follow the conversation. A provider would refuse the prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input is empty. A request may have no input only if the log ends with a complete round: calls and all their
    /// results.
    #[error("there is no input message")]
    Empty,
    /// The input contains a message of the model: a reply (an assistant message without tool calls), or the calls that
    /// are open in the log. The caller resends the conversation, which would therefore be sent and stored twice.
    ///
    /// Tool calls that the caller made itself are valid input, together with their results.
    #[error(
        "message {position} of the input was written by the assistant: send only new messages, or set \
         InputMode::Transcript to resend the whole list; for few-shot messages, set `few_shot_messages`"
    )]
    Resent {
        /// The index of the message in the input.
        position: usize,
    },
    /// A message has the format of another API than chat completions.
    #[error("message {position} is not in the chat-completions format: {shape}")]
    Foreign {
        /// The index of the message, counted from the first message after the head, or in the messages of
        /// `store_instead`.
        position: usize,
        /// The format that was recognized.
        shape: ForeignShape,
    },
    /// A message that should be stored as a tool result is not one.
    #[error("message {position} is not a tool result")]
    NotAResult {
        /// The index of the message.
        position: usize,
    },
    /// A tool result answers no open call: it is late, repeated, or belongs to another conversation.
    #[error("message {position} is a result for tool call {call_id:?}, which is not open")]
    UnexpectedResult {
        /// The index of the message in the input.
        position: usize,
        /// The id of the call that it names.
        call_id: String,
    },
    /// Tool calls have no result.
    #[error("tool calls without a result: {}", call_ids.join(", "))]
    Unanswered {
        /// The ids of the calls.
        call_ids: Vec<String>,
    },
    /// The input answers the open calls and the messages of `store_instead` do not, or the other way around.
    #[error("either both the input and `store_instead` answer the open tool calls, or neither does")]
    InsteadDiffers,
    /// The conversation waits for tool results, and the policy allows no new question.
    #[error("{calls} tool calls are open: send their results first")]
    TurnOpen {
        /// The number of open calls.
        calls: usize,
    },
}

/// A transcript that differs from the end of the log. The caller has changed it, or it belongs to another conversation.
///
/// Send only new messages, or import the messages that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("message {position} (counted from 0 after the head) {}", match .seq {
    Some(seq) => format!("differs from the stored message of exchange {seq}"),
    None => "precedes all stored messages".to_owned(),
})]
pub struct TranscriptError {
    /// The last message that differs, counted from 0 after the head.
    pub position: usize,
    /// The exchange that has a different message at its position, or `None` if the message precedes the whole log.
    pub seq: Option<Seq>,
}
