//! Why there is nothing to send.

use tower_chat_history_core::{ForeignShape, Seq};

use crate::budget::DoesNotFit;

/// A list that cannot be made to fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// The list is no prompt.
    #[error("the messages are no prompt: {0}")]
    Input(#[from] InputError),
    /// What has to stay is too large.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
}

/// An input that cannot stand behind the conversation: sent like this, a provider would refuse it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// There is no message beside the head, and the log does not end with the results of all calls, which only the
    /// model has to answer.
    #[error("there is no input message")]
    Empty,
    /// The input has what the model said before: the caller resends the conversation, which would be sent and stored
    /// twice.
    ///
    /// That is a reply (an assistant message without tool calls), or the calls that are open in the log. Calls of the
    /// caller's own, with their results, are legal input.
    #[error(
        "message {position} of the input is the assistant's: send only what is new; for callers that resend their list there is \
         InputMode::Transcript, and few-shot examples are counted as head by `few_shot_messages`"
    )]
    Resent {
        /// Which input message, counted from 0.
        position: usize,
    },
    /// A message is in the shape of another API than chat completions.
    #[error("message {position} is no message in the chat-completions format: {shape}")]
    Foreign {
        /// Which message, counted from 0: of the transcript and the input after it, or of what is to be stored instead.
        position: usize,
        /// The shape it has.
        shape: ForeignShape,
    },
    /// A message to be stored as a tool result is none.
    #[error("message {position} is no tool result")]
    NotAResult {
        /// Which one, counted from 0.
        position: usize,
    },
    /// A tool result answers no open call: it is late, repeated, or for another conversation.
    #[error("message {position} is a result for tool call {call_id:?}, which is not open")]
    UnexpectedResult {
        /// Which input message, counted from 0.
        position: usize,
        /// The call it names.
        call_id: String,
    },
    /// Tool calls stay without a result.
    #[error("tool calls without a result: {}", call_ids.join(", "))]
    Unanswered {
        /// The calls.
        call_ids: Vec<String>,
    },
    /// Of the input and what is to be stored instead, one answers the open calls and the other does not.
    #[error("what is stored instead must answer the open calls exactly when the input does")]
    InsteadDiffers,
    /// The conversation waits for tool results, and a new question is not allowed by policy.
    #[error("{calls} tool calls are open: send their results first")]
    TurnOpen {
        /// How many.
        calls: usize,
    },
}

/// A transcript that is not the end of the log: the caller has changed it, or it belongs to another conversation.
///
/// Send what is new alone, or import what the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("message {position} behind the head {}", match .seq {
    Some(seq) => format!("differs from what exchange {seq} has in its place"),
    None => "comes before everything that is stored".to_owned(),
})]
pub struct TranscriptError {
    /// The last message in which they differ, counted from 0 behind the head.
    pub position: usize,
    /// The exchange that has another message in its place; `None` if the log has none before it.
    pub seq: Option<Seq>,
}
