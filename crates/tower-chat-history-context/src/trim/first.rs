//! Keeping the oldest messages.

use tower_chat_history_core::Message;

use super::{Trim, ends, fit::Looked, pairs, partial::partial};
use crate::tokens::CountMessages;

pub(super) fn first<S, C: CountMessages + ?Sized>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message> {
    let list = pairs::from_start(messages, trim.keep_tool_pairs);
    let looked = Looked::at(list, false, trim.max_tokens, counter);
    let part = partial(&looked, trim.max_tokens, trim, counter);
    if let Some(part) = part.filter(|part| trim.end_on.admit(part.role())) {
        return looked.that_fit().iter().cloned().chain([part]).collect();
    }
    let ends = |end: &usize| {
        end.checked_sub(1).is_none_or(|last| ends(&looked.messages[last], looked.messages.get(*end), trim))
    };
    let end = (0..=looked.fitting).rev().find(ends).unwrap_or_default();
    looked.messages[..end].to_vec()
}
