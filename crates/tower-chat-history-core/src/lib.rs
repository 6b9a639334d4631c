//! The contract that every store of `tower-chat-history` fulfills, and the types that it uses.
//!
//! A [conversation](ConversationId) is an append-only *log* of [exchanges](Exchange). An exchange is what one model
//! call adds: its input [messages](Message) and the reply, stored as one record. Trimming and summarizing never change
//! the log. They write [compactions](Compaction), which are derived from the log. A compaction says which part of the
//! log is sent to the model: the *window*.
//!
//! This crate works without an async runtime, tower and HTTP. Applications depend on `tower-chat-history`, which
//! re-exports what they need.
//!
//! # Example
//!
//! This function works with every store. It reads and writes a conversation without a model:
//!
//! ```
//! use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
//!
//! /// Imports a conversation and prints it.
//! async fn import(store: &dyn HistoryStore) -> Result<(), Box<dyn std::error::Error>> {
//!     let id = ConversationId::new(["acme", "user-42", "support-7"])?;
//!     let conversation = store.conversation(&id);
//!     conversation.import([Message::user("Hi! I'm Nemo."), Message::assistant("Hello!")]).await?;
//!     for message in conversation.messages().await? {
//!         println!("{}: {}", message.role(), message.text());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Pages
//!
//! | To | Read |
//! | --- | --- |
//! | read, import, fork or clear a conversation | [`Conversation`] |
//! | have a reply generated again, or change a message | [`Conversation::take_last`], [`Conversation::truncate`] |
//! | list the tool calls that wait for results | [`Conversation::open_calls`] |
//! | keep only the last turns | [`Conversation::keep_last_turns`] |
//! | try another continuation | [`Conversation::fork`] |
//! | list conversations, for example in a sidebar | [`List`], [`ListExt::newest`] |
//! | erase a person's data and keep a receipt | [`EraseExt::erase_all`] |
//! | let conversations expire | [`Expiry`] |
//! | keep a record of erasures, exports and edits | [`management`] |
//! | write a store | [the guide](writing_a_store) |
//! | look up the contract of stores | [`HistoryStore`], [`Truncate`], [`Prune`], [`Fork`] |
//! | find tools for store authors | [`backend`] |
//! | test a store | the crate `tower-chat-history-conformance` |
//! | support another message format | [`Dialect`], and the guide "Writing a dialect" of the crate `tower-chat-history` |
//! | test a dialect | the module `dialect` of the crate `tower-chat-history-conformance` |
//! | handle deeply nested JSON | [`nested`] |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
mod compaction;
mod compat;
#[cfg(feature = "config")]
pub mod config;
mod conversation;
mod conversation_id;
mod digest;
mod erasing;
mod exchange;
mod expiry;
mod invalid;
#[doc(hidden)] // Only for the crates of this workspace, which pin exactly this version.
pub mod json;
mod labels;
pub mod management;
mod memory;
mod message;
mod metadata;
pub mod nested;
mod profile;
mod provenance;
mod recalled;
mod rounds;
mod seq;
mod stopped;
mod store;
mod translation;

#[doc = include_str!("../docs/writing-a-store.md")]
#[doc = "```"]
#[doc = include_str!("../docs/writing_a_store.rs")]
#[doc = "```"]
#[doc = include_str!("../docs/writing-a-store-steps.md")]
pub mod writing_a_store {}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use self::{
    compaction::{
        Compaction, CompactionError, CompactionVersion, Cut, Cuts, LearnedReader, LearnedReaders, Positions, Summary,
    },
    compat::{CallIdForm, Compat, MadeBy, MediaCompat, ReasoningField, SystemMessages},
    conversation::{Conversation, ForkError, HistoryStoreExt, ImportError, PageBack},
    conversation_id::{ConversationId, ConversationIdError, Prefix},
    digest::Digest,
    erasing::{EraseExt, ErasedQuotes, Erasure, Receipt, erase_quotes},
    exchange::{Exchange, ExchangeId, Recorded, Sealed, Timestamp, TokenCounts, Usage},
    expiry::{Expiry, ExpiryCursor, ExpiryRule, ExpiryRun},
    invalid::InvalidValue,
    labels::{Labels, LabelsVersion},
    message::{
        AnthropicMessages, Bound, CallId, ChatCompletions, Closes, Content, Dialect, DialectName, DialectNameError,
        Expressed, ForeignShape, Index, LeftOut, Media, Message, MessageError, OpenAiResponses, Part, PartKinds, Role,
        Source, Space, StatedCall, StatedContent, StatedId, Statement, ToolCall,
    },
    metadata::Metadata,
    profile::Profile,
    provenance::{Origin, PromptDigests, Provenance},
    recalled::{Citation, Recalled},
    rounds::NewestRound,
    seq::{Epoch, Incarnation, Revision, Seq},
    stopped::Stopped,
    store::{
        Added, Append, Appended, ByStore, Compact, CompactOutcome, Cursor, Derived, Erase, ErasedPage, Expect,
        FailedConversation, Fork, ForkTo, Forked, HistoryStore, KnownState, LabelsOutcome, List, ListExt, Listed,
        Listing, Load, LoadLimit, LoadLimitError, Loaded, Newest, Page, Prune, PruneTo, Pruned, Removed, Scrubbed,
        StoreError, Truncate, Truncated, Window,
    },
};
#[doc(hidden)] // Only for the crates of this workspace, which pin exactly this version.
pub use self::{
    rounds::{ExchangeStart, OpenCalls, Placed, Rounds},
    translation::{Translated, Translator},
};
