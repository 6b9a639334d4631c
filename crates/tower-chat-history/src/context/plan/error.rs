//! The errors of calls that cannot be sent.

use std::fmt;

use tower_chat_history_core::{ForeignShape, Seq};

use crate::context::budget::DoesNotFit;

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
    /// The input is empty. A request may have no input only if the log ends with a complete round (calls and all their
    /// results), or with a reply that the model [paused](tower_chat_history_core::Exchange::is_paused). A paused reply of
    /// which nothing can be sent needs an input, too, for example one that another origin made.
    #[error("there is no input message, and the model has nothing to continue")]
    Empty,
    /// The resent list ends with a reply that is not the last one of the log, so the model would have to continue it.
    /// The response to such a request has only the rest of the reply.
    #[error(
        "message {position} (counted from 0 after the head), the last one, was written by the assistant and is not in \
         the log, so its continuation cannot be stored: end the list with a message of the user"
    )]
    Prefill {
        /// The index of the reply, counted from the first message after the head.
        position: usize,
    },
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
    #[error("message {position} is a result for tool call {}, which is not open", Ids(&[call_id]))]
    UnexpectedResult {
        /// The index of the message in the input.
        position: usize,
        /// The id of the call that it names.
        call_id: String,
    },
    /// Tool calls have no result.
    #[error("tool calls without a result: {}", Ids(call_ids))]
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

/// Shows ids of tool calls, which models and callers choose: the first 5, with at most 64 characters each, and the
/// number of the others.
struct Ids<'a, T>(&'a [T]);

impl<T: AsRef<str>> fmt::Display for Ids<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_IDS: usize = 5;
        const MAX_CHARS: usize = 64;
        for (at, id) in self.0.iter().take(MAX_IDS).enumerate() {
            let id = id.as_ref();
            let end = id.char_indices().nth(MAX_CHARS).map_or(id.len(), |(end, _)| end);

            let separator = if at == 0 { "" } else { ", " };
            let ellipsis = if end < id.len() { "..." } else { "" };
            write!(f, "{separator}{:?}{ellipsis}", &id[..end])?;
        }
        match self.0.len().saturating_sub(MAX_IDS) {
            0 => Ok(()),
            others => write!(f, " and {others} others"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_shows_at_most_five_ids_of_64_characters() {
        let call_ids = (0..20_000).map(|at| format!("{at}{}", "é".repeat(100))).collect();
        let text = InputError::Unanswered { call_ids }.to_string();
        assert!(text.ends_with("... and 19995 others"), "{text}");
        assert_eq!(text.matches('é').count(), 5 * 63);
        let unexpected = InputError::UnexpectedResult { position: 3, call_id: "x".repeat(1_000) }.to_string();
        assert_eq!(
            unexpected,
            format!("message 3 is a result for tool call \"{}\"..., which is not open", "x".repeat(64))
        );
        let two = InputError::Unanswered { call_ids: vec!["a".to_owned(), "b\n".to_owned()] };
        assert_eq!(two.to_string(), r#"tool calls without a result: "a", "b\n""#);
    }
}
