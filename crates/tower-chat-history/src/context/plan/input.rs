//! Checks of an input, and the policy for one that comes while tool calls are open.

use tower_chat_history_core::{Message, OpenCalls, Placed, Recorded, Rounds, Seq};

use super::InputError;

/// Decides what happens to open tool calls if a new question comes instead of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnOpenTurn {
    /// The question is sent, and the calls count as abandoned. Results that come later are left out of prompts.
    #[default]
    Supersede,
    /// The call with the question fails with [`InputError::TurnOpen`](super::InputError::TurnOpen) before the model is
    /// called.
    Reject,
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
    let is_continued = |last: &Recorded| continues.is_none_or(|continues| last.seq >= continues);
    match last {
        Some(last) if is_continued(last) || last.exchange.is_paused() => Ok(()),
        _ => Err(InputError::Empty),
    }
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
pub fn refuse_foreign<'a>(messages: impl IntoIterator<Item = (usize, &'a Message)>) -> Result<(), InputError> {
    let mut shapes = messages.into_iter().map(|(position, message)| (position, message.foreign_shape()));
    let foreign = shapes.find_map(|(position, shape)| Some((position, shape?)));
    foreign.map_or(Ok(()), |(position, shape)| Err(InputError::Foreign { position, shape }))
}
