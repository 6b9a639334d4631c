//! The properties of messages and exchanges by which rounds are found.

use crate::{
    exchange::Exchange,
    message::{Closes, Index, Message},
    role::Role,
};

impl Message {
    /// Returns `true` if the message always [closes](Closes) the calls that are open before it. Messages before it then
    /// do not influence which calls are open after it. A message that [says nothing](Self::is_blank_reply) closes none.
    /// In chat completions, all other messages close them, except tool results.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        let index = self.index();
        index.closes == Closes::Always && !index.says_nothing
    }

    /// Returns `true` if there is a state in which the message closes calls.
    pub(super) fn may_close(&self) -> bool {
        self.index().closes != Closes::Never && !self.is_blank_reply()
    }
}

/// Returns `true` if a message says something, and is followed if it must be. `rest` has the messages after it in the
/// same exchange. All other messages change nothing.
#[inline]
pub(super) fn counts(index: &Index, rest: &[Message]) -> bool {
    !index.says_nothing && (!index.bound.to_next || is_followed(rest))
}

/// The largest number of elements in a row that must each be followed by the next one. More are not examined, so that
/// the work stays linear.
const LONGEST_CHAIN: usize = 64;

/// Returns `true` if the next element of a reply is sent after an element that must be followed. Messages that say
/// nothing are not sent, so they do not count. An element that must be followed itself is sent only if its next one is.
fn is_followed(rest: &[Message]) -> bool {
    let spoken = rest.iter().filter(|message| !message.is_blank_reply());
    let elements = spoken.take_while(|next| next.is_reply() || matches!(next.role(), Role::Other(_)));
    elements.take(LONGEST_CHAIN).any(|next| !next.bound().to_next)
}

/// Returns each message, with the messages after it.
pub(crate) fn with_rest(messages: &[Message]) -> impl Iterator<Item = (&Message, &[Message])> {
    (1..).zip(messages).map(|(after, message)| (message, &messages[after..]))
}

impl Exchange {
    /// Returns `true` if the model paused its reply, and [continues](crate::Dialect::resumes_without_input) it without
    /// further input. If the finish reason is not known, a reply counts as paused if it waits for a [call that the
    /// provider executes itself](Index::server_calls), and for no other call.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        let Some(last) = self.reply().last().filter(|_| !self.incomplete) else { return false };
        match &self.finish_reason {
            Some(reason) => last.dialect().is_some_and(|dialect| dialect.resumes_without_input(reason)),
            None => last.tool_calls().is_empty() && !last.index().server_calls.is_empty(),
        }
    }

    /// Returns `true` if the reply has reasoning that is [bound to its prompt](crate::Bound::to_prefix).
    #[must_use]
    pub fn is_bound_to_prompt(&self) -> bool {
        self.reply().iter().any(|message| message.bound().to_prefix)
    }

    /// Returns `true` if one of its messages [closes](Message::closes_open_calls) the calls that are open before
    /// it. An exchange that opens a turn does, except in edited logs, where it may have only tool results and blank
    /// replies.
    #[must_use]
    pub fn closes_open_calls(&self) -> bool {
        self.messages.iter().any(Message::closes_open_calls)
    }
}
