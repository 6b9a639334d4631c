//! The conformance suite: what every [`HistoryStore`](crate::HistoryStore) must do, as functions to call from its tests.
//!
//! Each function is one behaviour of the contract. It takes a [`Fixture`], which opens handles on the store's storage, and
//! panics if the store does something else. The functions know no runtime: they run under the one the store needs.
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
//! [`Fixture::open_prune`], and each is held to that contract as well.
//!
//! A test harness of another kind gets the same behaviours as a list of names and functions: [`behaviours`].
//!
//! Behaviours use conversations of their own, so all of them may run at once on one storage, and on one that is in use.

// Assertions are what this module is for.
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

mod behaviour;
mod fixture;
mod handles;
mod list;
mod support;
mod tests_by_name;

pub mod append;
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
pub mod truncate;
pub mod truncate_compaction;
pub mod truncate_race;

pub use self::{
    behaviour::{Behaviour, behaviours},
    fixture::{Capabilities, Fixture, ThroughArc},
    list::all,
};
