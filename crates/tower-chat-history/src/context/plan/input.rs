//! Checks of an input, and the policy for one that comes while tool calls are open.

use std::fmt;

use tower_chat_history_core::{ForeignShape, Message, OpenCalls, Placed, Recorded, Rounds, Seq};

/// Decides what happens to open tool calls if a new question comes instead of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnOpenTurn {
    /// The question is sent, and the calls count as abandoned. Results that come later are left out of prompts.
    #[default]
    Supersede,
    /// The call with the question fails with [`InputError::TurnOpen`] before the model is
    /// called.
    Reject,
}

/// An input that cannot follow the conversation. A provider would refuse the prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input is empty. A request may have no input only if the log ends with a complete round (calls and all their
    /// results), or with a reply that the model [paused](tower_chat_history_core::Exchange::is_paused). A paused reply
    /// of which nothing can be sent needs an input, too, for example one that another origin made.
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

/// Checks that the input can follow a log with this state. Returns `true` if the input continues the newest round: it
/// answers the open calls, or it is empty and only the model's reply is missing.
///
/// The input must be complete: its results answer all open calls and no others, and all calls of its own have
/// results. A new question while calls are open is valid here. [`OnOpenTurn`] decides what happens to them.
pub(super) fn check_input(log: &Rounds, input: &[Message]) -> Result<bool, InputError> {
    if input.is_empty() {
        return if log.awaits_reply() { Ok(true) } else { Err(InputError::Empty) };
    }

    let answers = continues_turn(input);
    let mut rounds = if answers { log.clone() } else { Rounds::default() };
    for (position, message) in input.iter().enumerate() {
        let has_results = has_results(message);
        match rounds.push(message, &input[position + 1..]) {
            Placed::Sent { closed, .. } if !closed.is_empty() => return Err(unanswered(&closed)),
            Placed::Sent { message: sent, .. } if sent.answers().len() == message.answers().len() => {}
            Placed::Nowhere if !has_results => {}
            placed => return Err(unexpected_result(position, message, &placed)),
        }
    }

    if rounds.open().is_empty() { Ok(answers) } else { Err(unanswered(rounds.open())) }
}

/// Checks that the model can continue a prompt without an input, if `last` is the last exchange of which something is
/// sent. It is the one that the input continues, or a later one. If nothing of these can be sent, it can be an earlier
/// part of the same paused reply.
pub(super) fn check_continued(last: Option<&Recorded>, continues: Option<Seq>) -> Result<(), InputError> {
    let Some(last) = last else { return Err(InputError::Empty) };
    let is_continued = continues.is_none_or(|continues| last.seq >= continues);
    if is_continued || last.exchange.is_paused() { Ok(()) } else { Err(InputError::Empty) }
}

/// Returns `true` if the input claims to continue a turn: it is empty, or begins with a result.
pub(super) fn continues_turn(input: &[Message]) -> bool {
    input.first().is_none_or(has_results)
}

/// Returns `true` if the message has results, or is one that names no call.
fn has_results(message: &Message) -> bool {
    message.is_tool_result() || !message.answers().is_empty()
}

fn unanswered(open: &OpenCalls) -> InputError {
    InputError::Unanswered { call_ids: open.ids().map(|id| id.as_str().to_owned()).collect() }
}

/// Returns the error for a message with a result that answers no open call.
fn unexpected_result(position: usize, message: &Message, placed: &Placed) -> InputError {
    let known = match placed {
        Placed::Sent { message, .. } => message.answers(),
        Placed::Nowhere => &[],
    };
    let unknown = message.answers().iter().find(|id| !known.contains(id));
    let call_id = unknown.or(message.answers().last()).map(|id| id.as_str().to_owned()).unwrap_or_default();
    InputError::UnexpectedResult { position, call_id }
}

/// Refuses messages in the format of other APIs. Their tool calls and results would not be recognized, so they could
/// neither be checked nor kept together.
pub(crate) fn refuse_foreign<'a>(messages: impl IntoIterator<Item = (usize, &'a Message)>) -> Result<(), InputError> {
    for (position, message) in messages {
        if let Some(shape) = message.foreign_shape() {
            return Err(InputError::Foreign { position, shape });
        }
    }
    Ok(())
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
