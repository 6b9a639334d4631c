//! A PostgreSQL store for tower-chat-history, for services with any number of replicas.
//!
//! [`PostgresStore`] keeps conversations in one schema of a database, which it can share with the application.
//!
//! ```no_run
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_postgres::PostgresStore;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let store = PostgresStore::connect("postgres://chat@localhost/app").await?;
//!     let id = ConversationId::new(["acme", "user-42"])?;
//!     let conversation = store.conversation(&id);
//!     conversation.import([Message::user("Hi, I'm Nemo."), Message::assistant("Hello!")]).await?;
//!     assert_eq!(conversation.messages().await?[1].text(), "Hello!");
//!     Ok(())
//! }
//! ```
//!
//! The crate `tower-chat-history` re-exports the names of the core crate. In a service, pass the store to its layer:
//! `ChatHistoryLayer::new(CachedStore::new(store), adapter)`. The adapter is the one for your client library, such as
//! `Json::new()` of its module `adapt`.
//!
//! [`PostgresOptions`] sets the schema, the size of the pool, and time limits.
//! [`PostgresOptions::with_pool`] uses an existing `deadpool_postgres::Pool`. Calls need a tokio runtime with I/O and
//! time.
//!
//! An append that returns `Ok` is committed. With `synchronous_commit = on`, PostgreSQL's default, it survives a crash
//! and a loss of power.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `config` | no | [`PostgresOptions`] as data of serde, for a configuration file |
//! | `rustls` | no | `PostgresOptions::connect_rustls`: TLS with rustls and the system's root certificates |
//!
//! # Guide
//!
//! | page | contents |
//! |---|---|
//! | [durability](guide::durability) | settings that decide if an acknowledged append can be lost |
//! | [erasure](guide::erasure) | first turns during an erasure, pages, and the places where erased data remains |
//! | [failures](guide::failures) | repetitions, time limits, late requests, damaged rows, errors |
//! | [schema](guide::schema) | tables, migrations, rolling upgrades |
//! | [rights](guide::rights) | grants for the application's role, and why the schema's owner must be trusted |
//! | [settings](guide::settings) | server settings that matter, and PgBouncer |
//! | [costs](guide::costs) | statements and round trips of each call, batching |
//! | [tls](guide::tls) | rustls and other TLS libraries |
//!
//! # Requirements
//!
//! Rust 1.89, and PostgreSQL 13 or later with a UTF8 database. The tests run with PostgreSQL 15.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod cut;
mod database;
mod erase;
mod error;
mod list;
mod open;
mod options;
mod read;
mod rows;
mod schema;
mod scrub;
mod sql;
mod store;
mod write;

pub use self::{
    error::{OpenError, PostgresError},
    options::PostgresOptions,
    store::PostgresStore,
};

/// Documentation pages. These modules contain no code.
pub mod guide {
    #[doc = include_str!("../docs/costs.md")]
    pub mod costs {}
    #[doc = include_str!("../docs/durability.md")]
    pub mod durability {}
    #[doc = include_str!("../docs/erasure.md")]
    pub mod erasure {}
    #[doc = include_str!("../docs/failures.md")]
    pub mod failures {}
    #[doc = include_str!("../docs/rights.md")]
    pub mod rights {}
    #[doc = include_str!("../docs/schema.md")]
    pub mod schema {}
    #[doc = include_str!("../docs/settings.md")]
    pub mod settings {}
    #[doc = include_str!("../docs/tls.md")]
    pub mod tls {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
