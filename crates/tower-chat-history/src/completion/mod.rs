//! Reading replies in the chat-completions format: whole responses, and streams of chunks.
//!
//! All adapters of this format use this module, so a reply is stored as the same message by each adapter, streamed or
//! not. A custom adapter can use both parts: [`reply_of`] for a whole response, and [`ChunkFold`] for a stream.
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
//! - The reply is the choice with the least `index`. Its role is `assistant`: another role is replaced, with a
//!   warning, and a missing one is added.
//! - The message of a whole response is kept byte for byte, and so is a streamed field that comes in one piece. In a
//!   streamed message, role and content come first, then the other fields in the order of their first piece, then the
//!   tool calls.
//! - Pieces are joined according to their type. Text is appended to text, in known and unknown fields. `role`,
//!   `type`, `id`, `name`, `format`, `model` and `provider` are replaced. Objects are joined field by field. Null
//!   changes nothing. For numbers and booleans, and for values nested deeper than 16 levels, the last value counts.
//! - The elements of a list are appended. An element with an `index` is joined to the earlier element with the same
//!   index, type and id, as far as both have them. In content, a part of type `text` or `thinking` is joined to the
//!   previous part if that has the same type.
//! - A piece of a tool call belongs to the call with the same index, and with the same id if both have one. A piece
//!   without an index belongs to the last call. A piece with a name begins another call if that call already has a
//!   name, and the name differs, came in the same chunk, or came with arguments that are complete.
//! - A missing `type` and missing arguments of a call are added. A call without an id is stored without one. An entry
//!   that is null or has no content is left out.
//! - Numbers may be written as `0`, `0.0` or `"0"`. If a key is repeated, its last value counts. A byte order mark is
//!   skipped.
//!
//! # Limits
//!
//! A stream is not stored in these cases:
//! - Its deltas are larger than 64 MiB in total, where each comma counts as 64 additional bytes.
//! - It has more than 1,024 tool calls, fields in one object, or elements with an `index` in one list.
//!
//! Its turn then ends as [interrupted](crate::report::NotStored::Interrupted), with a warning. The caller still gets
//! all items.

mod arguments;
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

/// The error for a stream that exceeds one of the [limits](self#limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooLarge;
