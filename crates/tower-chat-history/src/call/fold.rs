//! Folding a streamed reply.

use super::Reply;

/// Folds a stream's items into the reply.
///
/// After a panic of `push`, `is_complete` or `is_whole`, the fold is not called again, and the stream counts as
/// interrupted.
pub trait FoldReply<T>: Send + 'static {
    /// Folds the next item. The item itself is always passed on to the caller unchanged.
    fn push(&mut self, item: &T) -> Flow;

    /// Returns `true` if every choice has a finish reason. From then on the exchange is stored, even if the caller
    /// stops reading.
    fn is_complete(&self) -> bool;

    /// Returns `true` if the stored choice, which is the one with the least index, has a finish reason. If the stream
    /// then ends, its exchange is stored too, because some providers return fewer choices than requested.
    fn is_whole(&self) -> bool;

    /// Returns the reply so far, including data that has come after its last choice (usage).
    fn reply(&self) -> Reply;

    /// Returns the text so far, without unfinished tool calls, for a reply that broke off. Returns `None` if there is
    /// no text.
    fn partial(&self) -> Option<Reply>;
}

/// The time at which an item is passed on to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The item is passed on immediately.
    Pass,
    /// The item is the stream's last one (`[DONE]`), after which callers stop reading. It is passed on after the
    /// exchange is stored.
    Hold,
}
