//! Reading replies in the chat-completions format: whole responses, and streams of chunks.
//!
//! All adapters for this format use this module. A reply is therefore stored as the same message, whichever adapter
//! reads it and whether or not it is streamed. A custom adapter can use [`reply_of`] for a whole response, and
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
//! - The reply is the choice with the lowest `index`. It is stored with the role `assistant`: another role is
//!   replaced, and a warning is logged once per process; a missing role is added.
//! - The message of a whole response is stored byte for byte. So is each field of a streamed message that arrives in
//!   one piece. In a streamed message, role and content come first, then the other fields in the order of their first
//!   piece, then the tool calls.
//! - The pieces of a field are joined according to their JSON type. A text is appended to the earlier text, in known
//!   and unknown fields. Only in `role`, `type`, `id`, `name`, `format`, `model` and `provider`, a later text
//!   replaces the earlier one. Objects are joined field by field. Null changes nothing. For numbers and booleans, and
//!   for values nested deeper than 16 levels, the last value applies.
//! - The elements of a list are appended to the earlier list. If an element has an `index`, it is joined to the
//!   earlier element with the same index, type and id; a type or id that one of them lacks is not compared. In
//!   content, a part of type `text` or `thinking` is joined to the previous part if both have the same type. In
//!   `thinking_blocks`, a block of thinking without text or without a signature is joined to the previous block if
//!   that one has no signature yet.
//! - A piece of a tool call belongs to the call with the same index, and with the same id if both have one. A piece
//!   without an index belongs to the last call. If both the piece and that call have a name, the piece begins another
//!   call in three cases: the names differ; the call received its name in the same chunk; or the piece has arguments,
//!   and those of the call are already complete JSON.
//! - If a call has no `type` or no arguments, they are added. A call without an id is stored without one. A call that
//!   is null, or has no fields except `type` and `index`, is left out.
//! - A chunk with a `message` in place of the `delta` has the whole message. It counts if no delta came before it.
//! - An index or a token count may be written as `0`, `0.0` or `"0"`. If a key is repeated, its last value applies. A
//!   byte order mark is skipped.
//!
//! # Limits
//!
//! A stream is not stored in these cases:
//! - The deltas of the choice to be stored are larger than 64 MiB in total. Each delta, and each comma in it, counts
//!   as 64 additional bytes.
//! - It has more than 1,024 tool calls, fields in one object, or elements with an `index` in one list.
//!
//! The report then has [`NotStored::Interrupted`](crate::report::NotStored::Interrupted), and a warning is logged.
//! The caller receives all items nevertheless.

mod calls;
mod fold;
mod members;
mod node;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use self::read::reply_of_value;
pub use self::{
    fold::ChunkFold,
    members::without_half_pair,
    read::{assistant, reply_of, warn_of_role},
};

/// The error for a stream that exceeds one of the [limits](self#limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooLarge;
