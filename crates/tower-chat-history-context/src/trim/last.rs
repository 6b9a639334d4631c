//! Keeping the newest messages.

use tower_chat_history_core::Message;

use super::{Speaker, Trim, ends, fit::Looked, pairs, partial::partial, speaker::Speakers};
use crate::tokens::CountMessages;

pub(super) fn last<S, C: CountMessages + ?Sized>(
    messages: &[Message],
    trim: &Trim<S>,
    start_on: &Speakers,
    include_system: bool,
    counter: &C,
) -> Vec<Message> {
    let (system, rest) = if include_system { split_system(messages, trim.keep_tool_pairs) } else { (None, messages) };
    let mut list = pairs::from_end(rest, trim.keep_tool_pairs).peekable();
    let mut behind = None;
    while let Some(message) = list.next_if(|message| !ends(message, behind, trim)) {
        behind = Some(message);
    }
    // Behind a system message that is left alone there is no result.
    if list.peek().is_none() && system.is_some_and(|system| !trim.end_on.admit(system.role())) {
        return Vec::new();
    }
    let tokens = system.map_or(0, |system| counter.count(std::slice::from_ref(system)));
    let max_tokens = trim.max_tokens.saturating_sub(tokens);

    let looked = Looked::at(list, true, max_tokens, counter);
    let starts = |message: &Message| start_on.admit(message.role());
    let part = partial(&looked, max_tokens, trim, counter).filter(starts);
    let fit = looked.that_fit();
    let start = if part.is_some() {
        0
    } else {
        let is_clean_cut = |message: &Message| !trim.keep_tool_pairs || !message.is_tool_result();
        fit.iter().position(|message| starts(message) && is_clean_cut(message)).unwrap_or(fit.len())
    };
    system.cloned().into_iter().chain(part).chain(fit[start..].iter().cloned()).collect()
}

/// The system message that a list starts with, and what comes behind it. Results in front of it follow no call.
fn split_system(messages: &[Message], keep_tool_pairs: bool) -> (Option<&Message>, &[Message]) {
    let first = messages.iter().position(|message| !keep_tool_pairs || !message.is_tool_result());
    let is_system = |first: &usize| Speaker::of(messages[*first].role()) == Some(Speaker::System);
    match first.filter(is_system) {
        Some(first) => (Some(&messages[first]), &messages[first + 1..]),
        None => (None, messages),
    }
}
