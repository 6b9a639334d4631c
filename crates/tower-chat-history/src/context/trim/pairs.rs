//! Iterating over a list without the results that do not follow their call.
//!
//! Such results must neither cost tokens nor decide where the trimmed list begins or ends, so they are removed before
//! anything else. Both iterators are lazy: they read little more of the list than is consumed. This is possible because
//! a single message decides if a result follows its call: the nearest earlier message that is not a result. That
//! message must have the call.

use std::iter;

use tower_chat_history_core::Message;

use crate::context::view::OpenCalls;

/// Iterates over the list from its beginning. If `keep_pairs` is true, results that do not follow their call are left
/// out.
pub(super) fn from_start(messages: &[Message], keep_pairs: bool) -> impl Iterator<Item = &Message> {
    let mut open = OpenCalls::default();
    messages.iter().filter(move |message| !keep_pairs || follows_its_call(message, &mut open))
}

/// Iterates over the list from its end. If `keep_pairs` is true, results that do not follow their call are left out.
pub(super) fn from_end(messages: &[Message], keep_pairs: bool) -> impl Iterator<Item = &Message> {
    let mut rest = messages;
    let mut following: Vec<&Message> = Vec::new();
    iter::from_fn(move || {
        if !keep_pairs {
            let (last, before) = rest.split_last()?;
            rest = before;
            return Some(last);
        }
        while following.is_empty() {
            if rest.is_empty() {
                return None;
            }
            // A block is a message and the results after it, or the results at the beginning of the list.
            let start = rest.iter().rposition(|message| !message.is_tool_result()).unwrap_or_default();
            let (before, block) = rest.split_at(start);
            following.extend(from_start(block, true));
            rest = before;
        }
        following.pop()
    })
}

/// Updates the open calls with a message. Returns `false` if the message is a result that answers none of them.
fn follows_its_call(message: &Message, open: &mut OpenCalls) -> bool {
    if message.is_tool_result() {
        return !message.answers().is_empty() && open.answer_all(message).is_ok();
    }
    *open = OpenCalls::of(message);
    true
}
