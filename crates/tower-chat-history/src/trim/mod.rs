//! Trimming, filtering and merging lists of messages by hand.
//!
//! A service that has a [layer](crate::ChatHistoryLayer) needs none of this: the layer decides what is sent. These are the
//! functions for lists that a program keeps itself, as LangChain has them: [`trim_messages`], [`filter_messages`] and
//! [`merge_message_runs`]. They are pure, and leave the list that they are given as it is.
//!
//! ```
//! use tower_chat_history::{Message, tokens::MessageCount, trim::{Speaker, Trim, trim_messages}};
//!
//! let messages = [
//!     Message::system("you're a good assistant"),
//!     Message::user("I wonder why it's called langchain"),
//!     Message::assistant("Well, I guess they thought it sounded nice"),
//!     Message::user("and who is harrison chasing anyways"),
//!     Message::assistant("Hmmm let me think"),
//!     Message::user("what do you call a speechless parrot"),
//! ];
//! let trim = Trim::last(4).include_system().start_on([Speaker::User]).end_on([Speaker::User, Speaker::Tool]);
//! let kept = trim_messages(&messages, &trim, &MessageCount::new());
//! assert_eq!(kept, [&messages[..1], &messages[3..]].concat());
//! ```

mod context;
mod filter;
mod first;
mod fit;
mod last;
mod merge;
mod options;
mod partial;
mod speaker;

use std::borrow::Cow;

use tower_chat_history_core::Message;

use self::options::Strategy;
pub use self::{
    context::{FitError, fit_messages},
    filter::{MessageFilter, filter_messages},
    merge::merge_message_runs,
    options::{First, Last, Trim},
    speaker::Speaker,
};
use crate::{OpenCalls, tokens::CountMessages};

/// The messages that fit: LangChain's `trim_messages`.
///
/// [`Trim::last`] keeps the newest ones, [`Trim::first`] the oldest. Messages that are kept whole are the same ones, with
/// everything a provider put into them.
///
/// With [`keep_tool_pairs`](Trim::keep_tool_pairs), which is the default, no result stands without its call and no call
/// loses its results, which LangChain's own function does not care for; without it, the outcome is LangChain's, message by
/// message, be it right or wrong.
///
/// The list may come out empty: when not even the last message fits, or none is by a speaker that it may
/// [start](Trim::start_on) or [end](Trim::end_on) on. It is over the budget in one case: a
/// [system message](Trim::include_system) stays even if it alone is larger.
///
/// With a counter whose counts add up, of what is not kept no more is counted than the next message, and what was counted
/// once is not counted again: the cost depends on what is kept.
pub fn trim_messages<S, C>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message>
where
    C: CountMessages + ?Sized,
{
    let messages = if trim.keep_tool_pairs { without_orphans(messages) } else { messages.into() };
    match &trim.strategy {
        Strategy::First => first::first(&messages, trim, counter),
        Strategy::Last { start_on, include_system } => last::last(&messages, trim, start_on, *include_system, counter),
    }
}

/// Leaves out the results that do not follow their call: where the list itself has such. They must not cost anything, and a
/// list must not be cut, begin or end on their account, so this comes first.
fn without_orphans(messages: &[Message]) -> Cow<'_, [Message]> {
    let mut open = OpenCalls::default();
    let mut stays = |message: &Message| {
        if message.is_tool_result() {
            return open.answer(message);
        }
        open = OpenCalls::of(message);
        true
    };
    let Some(orphan) = messages.iter().position(|message| !stays(message)) else { return messages.into() };
    let rest = messages[orphan + 1..].iter().filter(|message| stays(message));
    messages[..orphan].iter().chain(rest).cloned().collect()
}

/// Whether a list without orphans can be cut before that position without taking a result off its call.
fn is_clean_cut(messages: &[Message], position: usize) -> bool {
    !messages.get(position).is_some_and(Message::is_tool_result)
}

/// The last position, `limit` or before it, where a list may end.
fn end<S>(messages: &[Message], limit: usize, trim: &Trim<S>) -> usize {
    let may_end = |end: &usize| match end.checked_sub(1).and_then(|last| messages.get(last)) {
        Some(last) => trim.end_on.admit(last.role()) && (!trim.keep_tool_pairs || is_clean_cut(messages, *end)),
        None => true,
    };
    (0..=limit).rev().find(may_end).unwrap_or_default()
}
