//! Fits lists of chat messages into a model's context window, and keeps the lists valid for the provider.
//!
//! The crate has token counters, the context windows of models, functions that trim lists, and rules that keep tool
//! calls and their results together. It needs no async runtime and no tower.
//!
//! # Example
//!
//! ```
//! use tower_chat_history_context::{
//!     FitError, Message, tokens::ByteEstimate, trim::fit_messages,
//! };
//!
//! fn main() -> Result<(), FitError> {
//!     let messages = [
//!         Message::system("Be brief."),
//!         Message::user("Who is Tom?"),
//!         Message::assistant("A cat."),
//!         Message::user("And Jerry?"),
//!     ];
//!     let max_tokens = 20;
//!     let fitting = fit_messages(&messages, max_tokens, &ByteEstimate::new())?;
//!     assert_eq!(fitting, [Message::system("Be brief."), Message::user("And Jerry?")]);
//!     Ok(())
//! }
//! ```
//!
//! The system message and the last question always stay. Of the turns between them, the oldest are left out first.
//!
//! # Pages
//!
//! | I want to ... | use |
//! |---|---|
//! | trim a list to a valid prompt | [`fit_messages`](trim::fit_messages) |
//! | trim a list exactly as LangChain does | [`trim_messages`](trim::trim_messages) |
//! | count tokens, or use my own tokenizer | [`tokens`], [`PerText`](tokens::PerText) |
//! | look up the context window of a model | [`ModelTable`](budget::ModelTable) |
//! | configure limits of stored conversations | [`ContextBudget`], [`Watermarks`](budget::Watermarks) |
//! | choose the turns that are kept | [`Trimmer`](budget::Trimmer) |
//! | repair a list with missing or late tool results | [`View`] |
//!
//! # Features
//!
//! The feature `config` makes the options data of serde, for a configuration file. It is off by default.
//!
//! # Next steps
//!
//! - Wrap your own tokenizer in [`PerText`](tokens::PerText).
//! - The crate `tower-chat-history` stores conversations and fits their prompts automatically. It re-exports this
//!   crate's modules under the same paths.
//! - The crate `tower-chat-history-openai` has exact token counters for OpenAI's models.

pub mod budget;
mod opening;
#[doc(hidden)] // Only for the engine of `tower-chat-history`, which pins exactly this version.
pub mod plan;
mod request;
mod server_tools;
pub mod tokens;
pub mod trim;
pub mod view;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use tower_chat_history_core::{Content, Message, MessageError, Role, ToolCall};

pub use self::{
    budget::ContextBudget,
    plan::{FitError, InputError, OnOpenTurn, TranscriptError},
    request::{InputMode, RequestInfo, RequestMessages},
    view::{OpenCalls, View},
};
