//! Reading replies in the chat-completions format: whole responses, and streams of chunks.
//!
//! All adapters of this format read replies here, so one reply is stored as one message, whichever adapter saw it and
//! whether it was streamed. An adapter of your own can use both parts: [`reply_of`] for a whole response, and
//! [`ChunkFold`] for a stream.
//!
//! ```
//! use tower_chat_history::adapt::{FoldReply as _, completion::{ChunkFold, reply_of}};
//!
//! let whole = br#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi!"},"finish_reason":"stop"}]}"#;
//! let mut fold = ChunkFold::new(1);
//! fold.push_json(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}"#);
//! fold.push_json(r#"{"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}"#);
//! assert!(fold.is_complete());
//! assert_eq!(fold.reply(), reply_of(whole));
//! ```
//!
//! # The rules
//!
//! - The reply is the choice with the least `index`. It is the assistant's: another role is replaced, with a warning,
//!   and a missing one is added.
//! - A message of a whole response is kept byte for byte, and so is a field that comes in one piece. In a stream, role
//!   and content come first, then the other fields in the order of their first piece, then the tool calls.
//! - Pieces are joined by their kind. Text is appended to text, in known and unknown fields. `role`, `type`, `id`,
//!   `name`, `format`, `model` and `provider` are replaced. Objects are joined field by field. Null changes nothing. Of
//!   numbers and booleans, and of values nested deeper than 16 levels, the last one counts.
//! - A list grows. An element with an `index` joins the one with the same index, type and id, where both have them. In
//!   content, a part of type `text` or `thinking` goes on in the next part of that type.
//! - A piece of a tool call belongs to the call with its index, and with its id where both have one. A piece without an
//!   index belongs to the last call. A piece with a name begins another call if a call with a name is there and the
//!   name differs, came in the same chunk, or came with complete arguments.
//! - A call gets the `type` and the empty arguments that it lacks. A call without an id is stored without one. An entry
//!   that is null or says nothing is left out.
//! - Numbers may be written as `0`, `0.0` or `"0"`. Of a repeated key, the last value counts. A byte order mark is
//!   skipped.
//!
//! # Limits
//!
//! A stream is not stored if its deltas are larger than 64 MiB, where each comma counts as 64 bytes more, or if it has
//! more than 1,024 tool calls, fields in one object or elements with an `index` in one list. Its turn ends as
//! [interrupted](crate::report::NotStored::Interrupted), with a warning. All items still pass.

mod calls;
mod fold;
#[cfg(test)]
mod fold_tests;
mod members;
mod node;
mod read;
mod role;
mod shape;

pub(crate) use self::read::reply_of_value;
pub use self::{fold::ChunkFold, read::reply_of, role::assistant};

/// A stream has more of something than is kept in memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooLarge;
