//! Exact counts of tokens, for OpenAI's models.
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
//! | counter | feature | a message of 250 bytes | the slowest text | memory for o200k_base |
//! |---|---|---|---|---|
//! | `Tiktoken` | `tiktoken`, a default one | 9 µs | 0.3 s a MiB | 46 MiB |
//! | `BpeOpenai` | `bpe-openai` | 7 µs | 0.3 s a MiB | 66 MiB |
//!
//! Both count alike, in `o200k_base` and `cl100k_base`, so that counts of the one, stored under the name of the encoding,
//! serve the other. Neither panics, whatever the text is, and ordinary text takes 25 to 70 ms a MiB. What a message costs
//! beyond its text is said in [`tower_chat_history::tokens`].

#[cfg(feature = "bpe-openai")]
mod bpe_openai;
mod built;
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
