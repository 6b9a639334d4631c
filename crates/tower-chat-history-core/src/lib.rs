//! The words of a remembered conversation, and the contract of the stores that keep it.
//!
//! A [conversation](ConversationId) is an append-only *log* of [exchanges](Exchange). An exchange is what one model call
//! adds: its input [messages](Message) and the reply, stored as one record. Trimming and summarizing never touch the log;
//! they write derived [compactions](Compaction) beside it, which say where the *window* starts that is sent to the model.
//!
//! Stores implement [`HistoryStore`]; its documentation is the contract, and the feature `testing` has the conformance
//! suite that proves a store keeps it. This crate knows no runtime, no tower and no HTTP.
//!
//! # History by hand
//!
//! Any store hands out a [`Conversation`] to read, fill and clear a history without a model:
//!
//! ```
//! use tower_chat_history_core::{ConversationId, HistoryStore, HistoryStoreExt, Message};
//!
//! async fn seed(store: &dyn HistoryStore) -> Result<Vec<Message>, Box<dyn std::error::Error>> {
//!     let id = ConversationId::new(["acme", "user-42", "support-7"])?;
//!     let conversation = store.conversation(&id);
//!     conversation.import([Message::user("Hey there! I'm Nemo."), Message::assistant("Hello!")]).await?;
//!     Ok(conversation.messages().await?)
//! }
//! ```
//!
//! A store that can [truncate](Truncate) lets a reply be [generated anew](Conversation::take_last) or a message be changed;
//! over every store a conversation can be [forked](Conversation::fork). One that can [prune](Prune) lets only the [last
//! turns](Conversation::keep_last_turns) stay, where a service asks for that.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backend;
mod causes;
mod compaction;
mod conversation;
mod conversation_id;
mod exchange;
mod exchange_id;
mod memory;
mod message;
pub mod nested;
mod profile;
mod revision;
mod rounds;
mod seq;
mod split;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod timestamp;

pub use self::{
    compaction::{Compaction, CompactionError, CompactionVersion, Cut, Summary},
    conversation::{Conversation, ForkError, HistoryStoreExt, ImportError, PageBack},
    conversation_id::{ConversationId, ConversationIdError},
    exchange::{Exchange, Recorded, TokenCounts, Usage},
    exchange_id::{ExchangeId, ExchangeIdError},
    message::{Content, ForeignShape, Message, MessageError, Role, ToolCall},
    profile::{Profile, ProfileError},
    revision::{Incarnation, Revision, RevisionError},
    rounds::{Begun, NewestRound, OpenCalls, Part, Rounds},
    seq::Seq,
    store::{
        Append, Appended, Compact, CompactOutcome, Derived, Expect, HistoryStore, KnownState, Load, LoadLimit,
        LoadLimitError, Loaded, Page, Prune, PruneTo, Pruned, StoreError, Truncate, Truncated, Window,
    },
    timestamp::Timestamp,
};
