//! Checks of an input, and the policy for one that comes while tool calls are open.

use tower_chat_history_core::Message;

use super::InputError;
use crate::view::{OpenCalls, View};

/// Decides what happens to open tool calls if a new question comes instead of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnOpenTurn {
    /// The question is sent, and the calls count as abandoned. Results that come later are left out of prompts.
    #[default]
    Supersede,
    /// The call with the question fails with [`InputError::TurnOpen`](super::InputError::TurnOpen) before the model is
    /// called.
    Reject,
}

/// Checks that the input can follow a log with this view. Returns `true` if the input continues the newest round: it
/// answers the open calls, or it is empty and only the model's reply is missing.
///
/// The input must be complete: its results answer all open calls and no others, and all calls of its own have
/// results. A new question while calls are open is valid here. [`OnOpenTurn`] decides what happens to them.
pub(super) fn check_input(view: &View, input: &[Message]) -> Result<bool, InputError> {
    let Some(first) = input.first() else {
        return if view.awaits_reply() { Ok(true) } else { Err(InputError::Empty) };
    };
    let answers = first.is_tool_result();
    let mut open = if answers { view.open().clone() } else { OpenCalls::default() };
    for (position, message) in input.iter().enumerate() {
        if message.is_tool_result() {
            if !open.answer(message) {
                let call_id = message.tool_call_id().unwrap_or_default().to_owned();
                return Err(InputError::UnexpectedResult { position, call_id });
            }
            continue;
        }
        check_answered(&open)?;
        open = OpenCalls::of(message);
    }
    check_answered(&open)?;
    Ok(answers)
}

fn check_answered(open: &OpenCalls) -> Result<(), InputError> {
    let call_ids: Vec<String> = open.ids().map(str::to_owned).collect();
    if call_ids.is_empty() { Ok(()) } else { Err(InputError::Unanswered { call_ids }) }
}

/// Refuses messages in the format of other APIs. Their tool calls and results would not be recognized, so they could
/// neither be checked nor kept together.
pub fn refuse_foreign<'a>(messages: impl IntoIterator<Item = (usize, &'a Message)>) -> Result<(), InputError> {
    let mut shapes = messages.into_iter().map(|(position, message)| (position, message.foreign_shape()));
    let foreign = shapes.find_map(|(position, shape)| Some((position, shape?)));
    foreign.map_or(Ok(()), |(position, shape)| Err(InputError::Foreign { position, shape }))
}
