//! Trimming lists of messages.
//!
//! These functions are for programs that keep their lists of messages themselves. [`fit_messages`] trims a list to a
//! valid prompt. [`trim_messages`] does the same as LangChain's function of this name. Both return a new list and
//! change nothing. If you use the layer of `tower-chat-history`, you need neither, because the layer chooses the
//! messages that are sent.
//!
//! ```
//! use tower_chat_history::{
//!     Message,
//!     tokens::MessageCount,
//!     trim::{Speaker, Trim, trim_messages},
//! };
//!
//! let messages = [
//!     Message::system("you're a good assistant"),
//!     Message::user("I wonder why it's called langchain"),
//!     Message::assistant("Well, I guess they thought it sounded nice"),
//!     Message::user("and who is harrison chasing anyways"),
//!     Message::assistant("Hmmm let me think"),
//!     Message::user("what do you call a speechless parrot"),
//! ];
//! // `MessageCount` counts each message as one token, so this keeps at most 4 messages.
//! let trim = Trim::last(4)
//!     .include_system()
//!     .start_on([Speaker::User])
//!     .end_on([Speaker::User, Speaker::Tool]);
//! let kept = trim_messages(&messages, &trim, &MessageCount::new());
//! assert_eq!(kept, [&messages[..1], &messages[3..]].concat());
//! ```

mod first;
mod last;
mod options;
mod pairs;
mod partial;
mod scan;
mod speaker;
mod valid_prompt;

use tower_chat_history_core::Message;

use self::options::Strategy;
pub use self::{
    options::{First, Last, Trim},
    speaker::Speaker,
    valid_prompt::fit_messages,
};
pub use crate::context::plan::FitError;
use crate::context::tokens::TokenCounter;

/// Returns the messages that fit, as LangChain's `trim_messages` does.
///
/// [`Trim::last`] keeps the newest messages, [`Trim::first`] the oldest. Messages that are kept whole are unchanged,
/// with all the fields that a provider added.
///
/// By default, tool calls and their results are kept or left out together. With
/// [`keep_tool_pairs(false)`](Trim::keep_tool_pairs), the outcome is identical to LangChain's, which may separate them.
///
/// The result is empty if not even one message fits, or if the list has no message by the speakers that
/// [`start_on`](Trim::start_on) and [`end_on`](Trim::end_on) require. The result exceeds the budget in one case: a
/// [system message](Trim::include_system) stays even if it alone is larger.
///
/// At most one message beyond those kept is counted, and none is counted twice. The cost depends on the messages that
/// are kept, not on the length of the list.
pub fn trim_messages<S, C>(messages: &[Message], trim: &Trim<S>, counter: &C) -> Vec<Message>
where
    C: TokenCounter + ?Sized,
{
    match &trim.strategy {
        Strategy::First => first::first(messages, trim, counter),
        Strategy::Last { start_on, include_system } => last::last(messages, trim, start_on, *include_system, counter),
    }
}

/// Returns `true` if a list may end on `last`. `next` is the message after it, which is then left out. The list must
/// have no results without their calls.
fn can_end_on<S>(last: &Message, next: Option<&Message>, trim: &Trim<S>) -> bool {
    let separates_a_pair = trim.keep_tool_pairs && next.is_some_and(Message::is_tool_result);
    trim.end_on.admit(last.role()) && !separates_a_pair
}
