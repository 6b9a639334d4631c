//! Leaving out results that do not follow their call: where the list itself has such. They must not cost anything, and a list
//! must not be cut, begin or end on their account, so they are never seen.
//!
//! Whether a result follows its call is known from the last message before it that is no result, so a list is gone through
//! from either end and no further than it is looked at.

use std::iter;

use tower_chat_history_core::Message;

use crate::view::OpenCalls;

/// The list from its beginning, without such results if pairs are to be kept.
pub(super) fn from_start(messages: &[Message], keep_pairs: bool) -> impl Iterator<Item = &Message> {
    let mut open = OpenCalls::default();
    messages.iter().filter(move |message| !keep_pairs || follows(message, &mut open))
}

/// The list from its end, without such results if pairs are to be kept.
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
            // A message with the results behind it, or results with nothing before them.
            let start = rest.iter().rposition(|message| !message.is_tool_result()).unwrap_or_default();
            let (before, block) = rest.split_at(start);
            following.extend(from_start(block, true));
            rest = before;
        }
        following.pop()
    })
}

fn follows(message: &Message, open: &mut OpenCalls) -> bool {
    if message.is_tool_result() {
        return open.answer(message);
    }
    *open = OpenCalls::of(message);
    true
}
