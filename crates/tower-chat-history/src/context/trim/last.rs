//! Keeping the newest messages.

use tower_chat_history_core::Message;

use super::{Speaker, Trim, can_end_on, pairs, partial::partial, scan::Scanned, speaker::Speakers};
use crate::context::tokens::{TokenCounter, tokens_of};

pub(super) fn last<S, C: TokenCounter + ?Sized>(
    messages: &[Message],
    trim: &Trim<S>,
    start_on: &Speakers,
    include_system: bool,
    counter: &C,
) -> Vec<Message> {
    let (system, rest) = if include_system { split_system(messages, trim.keep_tool_pairs) } else { (None, messages) };
    let mut list = pairs::from_end(rest, trim.keep_tool_pairs).peekable();
    let mut next = None;
    while let Some(message) = list.next_if(|message| !can_end_on(message, next, trim)) {
        next = Some(message);
    }
    // If no other message remains, the list ends with the system message. No result follows it, so only `end_on` can
    // forbid that.
    if list.peek().is_none() && system.is_some_and(|system| !trim.end_on.admit(system.role())) {
        return Vec::new();
    }
    let tokens = system.map_or(0, |system| u64::from(tokens_of(counter, system)));
    let max_tokens = trim.max_tokens.saturating_sub(tokens);

    let scanned = Scanned::of(list, true, max_tokens, counter);
    let starts = |message: &Message| start_on.admit(message.role());
    let part = partial(&scanned, trim, counter).filter(starts);
    let fit = scanned.fitting_messages();
    let start = if part.is_some() {
        0
    } else {
        let is_clean_cut = |message: &Message| !trim.keep_tool_pairs || !message.is_tool_result();
        fit.iter().position(|message| starts(message) && is_clean_cut(message)).unwrap_or(fit.len())
    };
    system.cloned().into_iter().chain(part).chain(fit[start..].iter().cloned()).collect()
}

/// Splits a list into the system message that it starts with, and the messages after it. Tool results before the system
/// message are left out if pairs are kept, since no call precedes them.
fn split_system(messages: &[Message], keep_tool_pairs: bool) -> (Option<&Message>, &[Message]) {
    let first = messages.iter().position(|message| !keep_tool_pairs || !message.is_tool_result());
    let is_system = |first: &usize| Speaker::of(messages[*first].role()) == Some(Speaker::System);
    match first.filter(is_system) {
        Some(first) => (Some(&messages[first]), &messages[first + 1..]),
        None => (None, messages),
    }
}
