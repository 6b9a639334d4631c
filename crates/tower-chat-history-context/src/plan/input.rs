//! Whether an input can stand behind a log.

use tower_chat_history_core::Message;

use super::InputError;
use crate::view::{OpenCalls, View};

/// Checks that the input can stand behind a log with that view, and says whether it continues the newest round: it
/// answers the open calls, or is empty where only the model's reply is missing.
///
/// The input must be whole: results answer calls that are there, all of them, and it leaves no call of its own open. A new
/// question on open calls is legal here; what then becomes of them is policy.
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
        unanswered(&open)?;
        open = OpenCalls::of(message);
    }
    unanswered(&open)?;
    Ok(answers)
}

fn unanswered(open: &OpenCalls) -> Result<(), InputError> {
    let call_ids: Vec<String> = open.ids().map(str::to_owned).collect();
    if call_ids.is_empty() { Ok(()) } else { Err(InputError::Unanswered { call_ids }) }
}

/// Refuses messages of other APIs: their tool calls and results would not be seen, and so neither kept together nor
/// checked.
pub fn refuse_foreign<'a>(messages: impl IntoIterator<Item = (usize, &'a Message)>) -> Result<(), InputError> {
    let mut shapes = messages.into_iter().map(|(position, message)| (position, message.foreign_shape()));
    let foreign = shapes.find_map(|(position, shape)| Some((position, shape?)));
    foreign.map_or(Ok(()), |(position, shape)| Err(InputError::Foreign { position, shape }))
}
