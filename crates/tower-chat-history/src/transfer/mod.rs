//! Export and import of the conversations of [`tower-chat-history`], and import from other libraries.
//!
//! [`Export`] writes all conversations under a prefix as JSON lines, and [`Importer`] reads these lines into any store.
//! Both work exchange by exchange, so their memory does not depend on the lengths of conversations. An import can be
//! repeated and interrupted: it never stores an exchange twice, and never mixes two logs.
//!
//! This crate works without an async runtime and HTTP. The program `chat-history` of the crate
//! `tower-chat-history-cli` uses it.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use futures_util::StreamExt as _;
//! use tower_chat_history_core::{List, Prefix};
//! use tower_chat_history::transfer::{Export, ExportOptions, ImportOptions, ImportReport, Importer};
//!
//! /// Copies all conversations, with everything that belongs to them, from one store into another.
//! async fn migrate(
//!     from: Arc<dyn List>,
//!     to: Arc<dyn List>,
//! ) -> Result<ImportReport, Box<dyn std::error::Error>> {
//!     let options = ExportOptions::new().compactions([Default::default()]).recall_data(true);
//!     let lines = Export::new(from, Prefix::all(), options).into_stream();
//!     let lines = lines.map(|line| line.map(|line| line + "\n"));
//!     Ok(Importer::new(to, ImportOptions::new()).read(lines).await?)
//! }
//! ```
//!
//! # Pages
//!
//! | page | contents |
//! |---|---|
//! | [`mod@format`] | the lines of an export and their fields |
//! | [`foreign`] | import from LangChain, LangGraph, openai-agents, Assistants, ChatML and ShareGPT |
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `sqlite` | no | the readers of SQLite files |
//!
//! [`tower-chat-history`]: https://docs.rs/tower-chat-history

mod cuts;
mod export;
pub mod foreign;
mod import;
mod line;
mod problem;

#[doc = include_str!("../../docs/transfer/format.md")]
pub mod format {}

pub use self::{
    export::{Export, ExportOptions, ExportReport, NotWhole},
    import::{ImportError, ImportOptions, ImportReport, Importer, Reason, Skipped},
    line::{ConversationLine, Cut, EndLine, FORMAT, Line, LineError, VERSION},
};
