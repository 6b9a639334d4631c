//! Keeping the oldest messages.

use tower_chat_history_core::Message;

use super::{Trim, end, fit::Ordered, partial::partial};
use crate::tokens::CountMessages;

pub(super) fn first<S, C: CountMessages + ?Sized>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message> {
    let list = Ordered { messages, from_end: false };
    let count = list.fitting(trim.max_tokens, counter);
    let part = partial(list, count, trim.max_tokens, trim, counter);
    if let Some(part) = part.filter(|part| trim.end_on.admit(part.role())) {
        return messages[..count].iter().cloned().chain([part]).collect();
    }
    messages[..end(messages, count, trim)].to_vec()
}
