//! Trimming, filtering and merging lists of messages by hand.
//!
//! A service with the layer of `tower-chat-history` needs none of this: the layer decides what is sent. These are the
//! functions for lists that a program keeps itself, as LangChain has them: [`trim_messages`], [`filter_messages`] and
//! [`merge_message_runs`]. They are pure, and leave the list that they are given as it is.
//!
//! ```
//! use tower_chat_history_context::{Message, tokens::MessageCount, trim::{Speaker, Trim, trim_messages}};
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
mod pairs;
mod partial;
mod speaker;

use tower_chat_history_core::Message;

use self::options::Strategy;
pub use self::{
    context::fit_messages,
    filter::{MessageFilter, filter_messages},
    merge::merge_message_runs,
    options::{First, Last, Trim},
    speaker::Speaker,
};
pub use crate::plan::FitError;
use crate::tokens::CountMessages;

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
    match &trim.strategy {
        Strategy::First => first::first(messages, trim, counter),
        Strategy::Last { start_on, include_system } => last::last(messages, trim, start_on, *include_system, counter),
    }
}

/// Whether a list may end on this message, behind which that one is left out. The list has no results without their calls.
fn ends<S>(last: &Message, behind: Option<&Message>, trim: &Trim<S>) -> bool {
    let tears_a_pair = trim.keep_tool_pairs && behind.is_some_and(Message::is_tool_result);
    trim.end_on.admit(last.role()) && !tears_a_pair
}
