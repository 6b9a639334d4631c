//! Assembling the reply of a stream.

use super::Reply;

/// Assembles the reply from a stream's items.
///
/// After a panic, the fold is not called again. Nothing is stored then, unless the reply was complete.
pub trait FoldReply<T>: Send + 'static {
    /// Adds the next item to the reply. The result determines the time at which the item is passed on to the caller.
    /// The item itself is never changed.
    fn push(&mut self, item: &T) -> Flow;

    /// Returns `true` if every requested choice has a finish reason. As soon as this is true, the exchange will be
    /// stored, even if the caller stops reading.
    fn is_complete(&self) -> bool;

    /// Returns `true` if the choice to be stored (the one with the lowest index) has a finish reason. If the stream
    /// ends in this state, the exchange is stored, although other choices are incomplete or missing: some providers
    /// return fewer choices than requested.
    fn is_whole(&self) -> bool;

    /// Returns the reply so far. It includes the usage, which may arrive after the last choice.
    fn reply(&self) -> Reply;

    /// Returns the text so far as a partial reply, without tool calls, for a stream that broke off. Returns `None` if
    /// there is no text.
    fn partial(&self) -> Option<Reply>;
}

/// The time at which an item is passed on to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The item is passed on immediately.
    Pass,
    /// The item is the stream's last one (`[DONE]`), after which callers stop reading. It is passed on only after the
    /// save of the exchange has ended.
    Hold,
}
