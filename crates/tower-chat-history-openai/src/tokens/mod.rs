//! Exact token counters for OpenAI's models, and the counters of [`tower_chat_history::tokens`].
//!
//! ```
//! # #[cfg(feature = "tiktoken")] {
//! use tower_chat_history::{Message, tokens::tokens_of};
//! use tower_chat_history_openai::tokens::Tiktoken;
//!
//! let counter = Tiktoken::for_model("gpt-4o");
//! // 3 for the message, 1 for its role, 2 for its text.
//! assert_eq!(tokens_of(&counter, &Message::user("hello world")), 6);
//! # }
//! ```
//!
//! | counter | feature | time for a message of 250 bytes | time for the slowest text | memory for `o200k_base` |
//! |---|---|---|---|---|
//! | `Tiktoken` | `tiktoken` (default) | 9 µs | 0.3 s per MiB | 46 MiB |
//! | `BpeOpenai` | `bpe-openai` | 7 µs | 0.3 s per MiB | 66 MiB |
//!
//! Both return the same counts, in `o200k_base` and in `cl100k_base`. Counts are stored under the name of the encoding,
//! so each counter can use the stored counts of the other. No text makes them panic. Ordinary text takes 25 to 70 ms
//! per MiB. [`tower_chat_history::tokens`] lists the costs of the other parts of a message.

#[cfg(feature = "bpe-openai")]
mod bpe_openai;
mod built;
mod counter;
mod encoding;
mod pieces;
#[cfg(test)]
mod pieces_tests;
#[cfg(feature = "tiktoken")]
mod tiktoken;

#[cfg(feature = "bpe-openai")]
pub use self::bpe_openai::BpeOpenai;
#[cfg(feature = "tiktoken")]
pub use self::tiktoken::Tiktoken;
pub use tower_chat_history::tokens::*;
