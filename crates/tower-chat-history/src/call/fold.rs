//! Folding a streamed reply.

use super::Reply;

/// Folds a stream's items into the reply.
pub trait FoldReply<T>: Send + 'static {
    /// Takes the next item. It is passed on to the caller untouched in any case.
    fn push(&mut self, item: &T) -> Flow;

    /// Whether every choice has said why it ended: from here on the exchange is stored, even if nobody reads on.
    fn is_complete(&self) -> bool;

    /// Whether the choice that becomes history has said why it ended. It is the one with the least index. A stream that
    /// ends by itself is then stored too: some providers give fewer choices than were asked for.
    fn is_whole(&self) -> bool;

    /// The reply so far, with what came after its last choice (usage) if that has come.
    fn reply(&self) -> Reply;

    /// The text so far, without half tool calls, for a reply that broke off. `None` if there is no text.
    fn partial(&self) -> Option<Reply>;
}

/// What happens with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It goes to the caller at once.
    Pass,
    /// It is the stream's last (`[DONE]`), on which callers let go: it goes to the caller when the exchange is stored.
    Hold,
}
