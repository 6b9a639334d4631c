//! Keeping the oldest messages.

use tower_chat_history_core::Message;

use super::{Trim, can_end_on, pairs, partial::partial, scan::Scanned};
use crate::context::tokens::TokenCounter;

pub(super) fn first<S, C: TokenCounter + ?Sized>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message> {
    let list = pairs::from_start(messages, trim.keep_tool_pairs);
    let scanned = Scanned::of(list, false, trim.max_tokens, counter);
    let part = partial(&scanned, trim, counter);
    if let Some(part) = part.filter(|part| trim.end_on.admit(part.role())) {
        return scanned.fitting_messages().iter().cloned().chain([part]).collect();
    }
    let is_end = |end: &usize| {
        end.checked_sub(1).is_none_or(|last| can_end_on(&scanned.messages[last], scanned.messages.get(*end), trim))
    };
    let end = (0..=scanned.fitting).rev().find(is_end).unwrap_or_default();
    scanned.messages[..end].to_vec()
}
