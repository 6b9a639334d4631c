//! Export and import of conversations, and import from other libraries (feature `transfer`).
//!
//! [`Export`] writes all conversations under a prefix as JSON lines, and [`Importer`] reads these lines into any store.
//! Both work exchange by exchange, so their memory does not depend on the lengths of conversations. An import can be
//! repeated and interrupted: it never stores an exchange twice, and never mixes two logs.
//!
//! Both work with every async runtime. The program `chat-history` of the crate `tower-chat-history-cli` uses them.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use futures_util::StreamExt as _;
//! use tower_chat_history::store::{List, Prefix};
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
//! | [`foreign`] | import from LangChain, LangGraph, openai-agents, Assistants, ChatML and ShareGPT (from SQLite files: feature `transfer-sqlite`) |

mod export;
pub mod foreign;
mod import;
mod line;

#[doc = include_str!("../../docs/transfer/format.md")]
pub mod format {}

pub use self::{
    export::{Export, ExportOptions, ExportReport, NotWhole},
    import::{ImportError, ImportOptions, ImportReport, Importer, Reason, SkippedPart},
    line::{ExportCut, FORMAT, LineError, VERSION},
};
