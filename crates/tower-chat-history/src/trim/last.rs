//! Keeping the newest messages.

use tower_chat_history_core::Message;

use super::{Speaker, Trim, end, fit::Ordered, is_clean_cut, partial::partial, speaker::Speakers};
use crate::tokens::CountMessages;

pub(super) fn last<S, C: CountMessages + ?Sized>(
    messages: &[Message],
    trim: &Trim<S>,
    start_on: &Speakers,
    include_system: bool,
    counter: &C,
) -> Vec<Message> {
    let end = end(messages, messages.len(), trim);
    let system =
        messages[..end].first().filter(|first| include_system && Speaker::of(first.role()) == Some(Speaker::System));
    let max_tokens = match system {
        Some(system) => trim.max_tokens.saturating_sub(counter.count(std::slice::from_ref(system))),
        None => trim.max_tokens,
    };

    let messages = &messages[usize::from(system.is_some())..end];
    let list = Ordered { messages, from_end: true };
    let count = list.fitting(max_tokens, counter);
    let start = messages.len() - count;

    let starts = |message: &Message| start_on.admit(message.role());
    let part = partial(list, count, max_tokens, trim, counter).filter(starts);
    let start = if part.is_some() {
        start
    } else {
        let starts =
            |start: &usize| starts(&messages[*start]) && (!trim.keep_tool_pairs || is_clean_cut(messages, *start));
        (start..messages.len()).find(starts).unwrap_or(messages.len())
    };
    system.cloned().into_iter().chain(part).chain(messages[start..].iter().cloned()).collect()
}
