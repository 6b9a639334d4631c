//! A store for [`tower-chat-history`] that keeps conversations in one SQLite file and needs no server.
//!
//! [`SqliteStore`] keeps any number of conversations in a single database file. SQLite is compiled in. The store has
//! its own threads: one thread writes, and a few threads read. A call waits for its answer without blocking, so the
//! store works with every async runtime.
//!
//! # Example
//!
//! ```no_run
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_sqlite::SqliteStore;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let store = SqliteStore::open("chat.db").await?;
//!     let id = ConversationId::new(["acme", "user-42"])?;
//!     let conversation = store.conversation(&id);
//!     conversation.import([Message::user("Hi! I'm Nemo."), Message::assistant("Hello!")]).await?;
//!     for message in conversation.messages().await? {
//!         println!("{}", message.text());
//!     }
//!     store.close().await?;
//!     Ok(())
//! }
//! ```
//!
//! In a service, pass the store to the layer of `tower-chat-history`: `ChatHistoryLayer::new(store, adapter)`. The
//! README has a complete example. [`SqliteOptions`] has the options and their defaults.
//!
//! # Guarantees
//!
//! - An append that returned `Ok` survives a crash of the process, a crash of the system and a power loss. (With
//!   [`Synchronous::Normal`], only a crash of the process.)
//! - Each append is one transaction: an exchange is stored whole or not at all.
//! - Several processes on one machine may use the same file.
//! - A load reads only the rows of its window. Its cost does not depend on the length of the log.
//! - A page of a listing reads only the rows of its conversations. Its cost does not depend on their number.
//! - After a deletion or an erasure, no call that began before it can create the conversation again, in any process.
//!   (An append that names [no epoch](tower_chat_history_core::Append::since) can.)
//! - A fork copies rows within the file, in one transaction: the copy is stored whole or not at all.
//! - A call that removes exchanges removes their recalled messages and provenances in the same transaction.
//!
//! # Guide
//!
//! | page | contents |
//! |---|---|
//! | [durability](guide::durability) | the meaning of an acknowledged append, shared commits, dropped calls |
//! | [processes](guide::processes) | several processes on one file: limits, locks, stopped processes |
//! | [file](guide::file) | names, files next to the database, tables, backups, replacement |
//! | [erasing](guide::erasing) | listings, forks, erasures, removal of traces from the files: costs, and what stays |
//! | [damage](guide::damage) | damaged files and rows: what is detected |
//!
//! # Features
//!
//! The feature `config` makes [`SqliteOptions`] data of serde, for a configuration file. It is not enabled by default.
//! SQLite is compiled in (rusqlite's feature `bundled`), which needs a C compiler.
//!
//! [`tower-chat-history`]: https://docs.rs/tower-chat-history

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod erasures;
mod error;
pub mod guide;
mod job;
mod options;
mod read;
mod stats;
mod store;
mod write;

pub use self::{
    error::SqliteError,
    options::{OpenError, SqliteOptions, Synchronous},
    stats::Stats,
    store::SqliteStore,
};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
