//! A Redis and Valkey store for tower-chat-history, for services with any number of replicas.
//!
//! [`RedisStore`] works with a single server, with a managed primary endpoint, and with a Cluster. A load and an append
//! of a conversation that exists are one script and one round trip each. A load of a window of more than 256 KiB is
//! two.
//!
//! ```no_run
//! use tower_chat_history_core::{ConversationId, HistoryStoreExt, Message};
//! use tower_chat_history_redis::RedisStore;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let store = RedisStore::connect("redis://127.0.0.1/").await?;
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
//! [`RedisStore::connect_cluster`] connects to a Cluster. [`RedisOptions`] sets the prefix of keys, expiry, and time
//! limits.
//!
//! **Set `maxmemory-policy noeviction` on the server.** With any other policy, a full server deletes conversations.
//!
//! An append that returns `Ok` is in the memory of the master. The server's persistence and replication decide if it
//! can be lost.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `config` | no | [`RedisOptions`] as data of serde, for a configuration file |
//! | `rustls` | no | `rediss://` addresses, `RedisOptions::root_certificates`, `RedisOptions::client_certificate` |
//!
//! # Guide
//!
//! | page | contents |
//! |---|---|
//! | [durability](guide::durability) | persistence and replication: settings that decide if an append can be lost |
//! | [failures](guide::failures) | repetitions, time limits, late requests, failovers, damaged keys, errors |
//! | [memory](guide::memory) | eviction, full servers, sizes, expiry |
//! | [layout](guide::layout) | the keys of a conversation and of the registry |
//! | [erasing](guide::erasing) | deleting and erasing conversations, and what they leave |
//! | [rights](guide::rights) | commands and keys that an ACL user needs |
//! | [costs](guide::costs) | scripts and round trips of each call |
//! | [tls](guide::tls) | certificates and crypto providers |
//!
//! # Requirements
//!
//! Rust 1.89, and Redis 7.0 or Valkey 7.2 or later. The tests run with Redis 7.0.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod connection;
mod erase;
mod error;
mod list;
mod open;
mod options;
mod read;
mod registry;
mod reply;
mod scripts;
mod scrub;
mod store;
mod stored;
mod write;

pub use self::{
    error::{LayoutError, OpenError},
    options::RedisOptions,
    store::RedisStore,
};

/// Documentation pages. These modules contain no code.
pub mod guide {
    #[doc = include_str!("../docs/costs.md")]
    pub mod costs {}
    #[doc = include_str!("../docs/durability.md")]
    pub mod durability {}
    #[doc = include_str!("../docs/erasing.md")]
    pub mod erasing {}
    #[doc = include_str!("../docs/failures.md")]
    pub mod failures {}
    #[doc = include_str!("../docs/layout.md")]
    pub mod layout {}
    #[doc = include_str!("../docs/memory.md")]
    pub mod memory {}
    #[doc = include_str!("../docs/rights.md")]
    pub mod rights {}
    #[doc = include_str!("../docs/tls.md")]
    pub mod tls {}
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
