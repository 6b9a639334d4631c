//! Fits lists of chat messages into a model's context window: token counts, budgets, trimming, and the view that keeps a
//! prompt valid. It needs no tower and no tokio.
//!
//! ```
//! use tower_chat_history_context::{Message, tokens::ByteEstimate, trim::fit_messages};
//!
//! let messages = [Message::user("Who is Tom?"), Message::assistant("A cat."), Message::user("And Jerry?")];
//! assert_eq!(fit_messages(&messages, 10, &ByteEstimate::new())?, messages[2..]);
//! # Ok::<(), tower_chat_history_context::FitError>(())
//! ```
//!
//! - [`trim`]: [`trim_messages`](trim::trim_messages) as LangChain has it, and [`fit_messages`](trim::fit_messages), which
//!   never separates a tool call from its result.
//! - [`tokens`]: counters of tokens, and their parts.
//! - [`budget`]: context windows by model, watermarks, trimmers.
//! - [`view`]: a log of messages as a prompt that a provider accepts.
//!
//! The crate `tower-chat-history` has all of it under the same paths, for conversations that are stored.

pub mod budget;
#[doc(hidden)] // For the engine of `tower-chat-history`, of exactly this version.
pub mod plan;
#[doc(hidden)] // Its types are at the root.
pub mod request;
pub mod tokens;
pub mod trim;
pub mod view;

pub use tower_chat_history_core::{Content, Message, MessageError, Role, ToolCall};

pub use self::{
    budget::ContextBudget,
    plan::{FitError, InputError, OnOpenTurn, TranscriptError},
    request::{InputMode, RequestInfo, RequestMessages},
    view::{OpenCalls, View},
};
