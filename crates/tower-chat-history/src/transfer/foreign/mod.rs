//! Conversations from other libraries.
//!
//! Each reader of this module is an iterator over the [conversations](ForeignConversation) of a file.
//! [`import_foreign`] stores them. The page about [other libraries](self::guide) says what each format keeps.
//!
//! The readers block the thread while they read the file. Their memory depends on the longest conversation. A file of
//! JSON that is one list is read whole, and may have at most 128 MiB.

mod assistants;
mod chat_ml;
mod conversation;
mod json;
mod langchain;
#[cfg(feature = "transfer-sqlite")]
mod langgraph;
mod records;
mod share_gpt;
#[cfg(feature = "transfer-sqlite")]
mod sqlite;
mod store;

#[doc = include_str!("../../../docs/transfer/foreign.md")]
pub mod guide {}

pub use self::{
    assistants::AssistantsThreads,
    chat_ml::{ChatMl, ChatMlText},
    conversation::{ForeignConversation, ForeignMessage},
    langchain::LangChainRedis,
    share_gpt::ShareGpt,
    store::{ForeignOptions, import_foreign},
};
#[cfg(feature = "transfer-sqlite")]
pub use self::{
    langgraph::LangGraphSqlite,
    sqlite::{AgentsSqlite, LangChainSqlite},
};
pub use crate::transfer::problem::{ForeignError, Problem};
