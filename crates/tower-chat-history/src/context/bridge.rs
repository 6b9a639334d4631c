//! Constant replies, where a prompt would otherwise have a question directly after another one, or after the result of
//! a call.
//!
//! Many chat templates, and some providers, refuse a message of the user after another one, or after a tool's result
//! (as of November 2026). A log leads to such prompts where the layer leaves something out, or adds something:
//!
//! - The last exchange has no reply, or only one that says nothing. Or its calls were abandoned, so that constant
//!   results stand before the question.
//! - The prompt begins with a summary, which is a message of the user.
//! - Earlier messages were recalled for a question.
//!
//! A constant reply then stands before the question. It depends only on the messages before it and on the question, so
//! prompts stay prefixes of each other.
//!
//! # Decisions
//!
//! - **The messages of one input are sent as they are.** Two questions in one input stay two messages in a row.
//! - **A constant reply stands between recalled messages and their question.** If both were one message, the caller's
//!   own message would have to be changed in each request, also in the requests of a program's own adapter.
//! - **No constant reply stands before a message with results.** Results must directly follow their calls.

use tower_chat_history_core::{Message, Role};

/// The reply in place of one that is missing.
pub(crate) const NO_REPLY: &str = "[no reply]";

/// The reply to a summary, and to recalled messages.
pub(crate) const UNDERSTOOD: &str = "Understood.";

/// Returns the constant reply with this text to a message, in the message's dialect. A dialect reads what it writes. If
/// it does not, there is no reply.
pub(crate) fn constant_reply(to: &Message, text: &'static str) -> Option<Message> {
    Message::compose(to.dialect()?, &Role::Assistant, text).ok()
}

/// Returns the reply to a summary, if the message after it is a question.
pub(crate) fn reply_to_summary(summary: &Message, next: Option<&Message>) -> Option<Message> {
    next.filter(|next| is_question(next)).and_then(|_| constant_reply(summary, UNDERSTOOD))
}

/// Returns the first message of an input that is not blank.
pub(crate) fn first_of(input: &[Message]) -> Option<&Message> {
    input.iter().find(|message| !message.is_blank())
}

/// Returns `true` for a message of the user without results.
pub(crate) fn is_question(message: &Message) -> bool {
    *message.role() == Role::User && message.answers().is_empty()
}

/// Returns `true` for a message that only a reply may follow: one of the user, or a result.
pub(crate) fn waits_for_reply(message: &Message) -> bool {
    matches!(message.role(), Role::User | Role::Tool | Role::Function)
}

/// Returns `true` for a message with the text of a constant reply.
pub(crate) fn is_constant_reply(message: &Message) -> bool {
    message.is_reply() && message.tool_calls().is_empty() && matches!(message.text().trim(), NO_REPLY | UNDERSTOOD)
}
