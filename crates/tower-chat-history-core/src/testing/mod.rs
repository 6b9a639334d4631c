//! The conformance suite: what every [`HistoryStore`](crate::HistoryStore) must do, as functions to call from its tests.
//!
//! Each function is one behaviour of the contract. It takes a [`Fixture`], which opens handles on the store's storage,
//! and panics if the store does something else. The panic says what was expected, what the store returned, and which
//! sentence of the contract that breaks. The functions know no runtime: they run under the one the store needs.
//!
//! [`conformance_tests!`](crate::conformance_tests) makes a test of each, twice: on the store itself, and through an
//! `Arc<dyn HistoryStore>`. So a store's crate runs the whole suite by one item, in `tests/conformance.rs`:
//!
//! ```
//! # use std::sync::Arc;
//! use tower_chat_history_core::{HistoryStore, conformance_tests, testing::{Capabilities, Fixture}};
//!
//! struct MyFixture(/* a temporary directory, a schema of its own */);
//!
//! #[async_trait::async_trait]
//! impl Fixture for MyFixture {
//!     async fn open(&self) -> Arc<dyn HistoryStore> {
//! #       unimplemented!()
//!         /* Arc::new(MyStore::open(..)) */
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::new().durable(true)
//!     }
//! }
//! # macro_rules! conformance_tests { ($($ignored:tt)*) => {} }
//!
//! conformance_tests! {
//!     #[tokio::test]
//!     MyFixture()
//! }
//! ```
//!
//! A store that can [truncate](crate::Truncate) says so by [`Fixture::open_truncate`], one that can [prune](crate::Prune) by
//! [`Fixture::open_prune`], and each is held to that contract as well. A store that cannot is listed so, and the tests
//! that it cannot pass are counted as ignored:
//!
//! ```
//! # use std::sync::Arc;
//! # use tower_chat_history_core::{HistoryStore, conformance_tests};
//! # macro_rules! conformance_tests { ($($ignored:tt)*) => {} }
//! conformance_tests! {
//!     #[tokio::test]
//!     MyFixture(),
//!     without: [truncate, prune]
//! }
//! ```
//!
//! # A store of a single process
//!
//! A durable store is dropped and opened again by some behaviours, and the fixture must not keep it alive meanwhile. A
//! store that cannot be open twice (it locks its file, say) cannot be opened anew for each handle either. Its fixture
//! hands out the open store as long as somebody has it, by a [`Weak`](std::sync::Weak) reference:
//!
//! ```
//! use std::sync::{Arc, Weak};
//!
//! use tower_chat_history_core::{HistoryStore, testing::{Capabilities, Fixture}};
//! # #[derive(Debug)] struct MyStore;
//! # impl MyStore { async fn open(_: &str) -> Arc<dyn HistoryStore> { unimplemented!() } }
//!
//! struct MyFixture {
//!     path: String,
//!     // An asynchronous lock, which is held while the store is opened: tokio's, for example.
//!     open: futures_util::lock::Mutex<Weak<dyn HistoryStore>>,
//! }
//!
//! #[async_trait::async_trait]
//! impl Fixture for MyFixture {
//!     async fn open(&self) -> Arc<dyn HistoryStore> {
//!         let mut open = self.open.lock().await;
//!         if let Some(store) = open.upgrade() {
//!             return store;
//!         }
//!         let store = MyStore::open(&self.path).await;
//!         *open = Arc::downgrade(&store);
//!         store
//!     }
//!
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::new().durable(true)
//!     }
//! }
//! ```
//!
//! A test harness of another kind gets the same behaviours as a list of names and functions: [`behaviours`].
//!
//! Behaviours use conversations of their own, so all of them may run at once on one storage, and on one that is in use.

// Assertions are what this module is for.
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

mod behaviour;
mod capability;
mod clause;
mod fixture;
mod list;
mod tests_by_name;

pub mod shorthand;

// Its macros stand for the standard library's from here on.
#[macro_use]
mod say;

mod handles;
mod support;

pub mod append;
pub mod back;
pub mod cancel;
pub mod compact_with_append;
pub mod compaction;
pub mod content;
pub mod continues;
pub mod conversation;
pub mod deletion;
pub mod editing;
pub mod empty;
pub mod expect;
pub mod idempotent;
pub mod isolation;
pub mod kept;
pub mod late;
pub mod limit;
pub mod load;
pub mod metadata;
pub mod nul;
pub mod profiles;
pub mod prune;
pub mod prune_compaction;
pub mod prune_model;
pub mod prune_race;
pub mod race;
pub mod read;
pub mod reopen;
pub mod retain;
pub mod system;
pub mod truncate;
pub mod truncate_compaction;
pub mod truncate_race;

pub use self::{
    behaviour::{Behaviour, behaviours},
    capability::Capability,
    fixture::{Capabilities, Fixture, ThroughArc},
    list::all,
};
