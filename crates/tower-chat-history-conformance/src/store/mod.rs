//! The contract of [`HistoryStore`] as functions to call from a store's tests.
//!
//! Each function tests one behavior of the contract. It takes a [`Fixture`], which opens handles on the store's
//! storage, and panics if the store behaves differently. The panic shows the expected value, the store's answer, and
//! the sentence of the contract that it breaks. The functions work with every async runtime: use the one that the store
//! needs.
//!
//! [`conformance_tests!`](crate::conformance_tests) creates a test for each function. A store's crate runs the whole
//! suite with one macro call, in `tests/conformance.rs`:
//!
//! ```
//! # use std::sync::Arc;
//! use tower_chat_history_conformance::{conformance_tests, store::{Capabilities, Fixture}};
//! use tower_chat_history_core::HistoryStore;
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
//! A store that can [truncate] implements [`Fixture::open_truncate`], one that can [prune] implements
//! [`Fixture::open_prune`], and one that lists and [erases] its conversations implements [`Fixture::open_erase`]. The
//! suite then tests these abilities too. If a store lacks an ability, list it after `without`, and the tests that need
//! it are ignored. A store that encrypts what it stores lists `sealed`, too:
//!
//! ```
//! # use std::sync::Arc;
//! # use tower_chat_history_conformance::conformance_tests;
//! # use tower_chat_history_core::HistoryStore;
//! # macro_rules! conformance_tests { ($($ignored:tt)*) => {} }
//! conformance_tests! {
//!     #[tokio::test]
//!     MyFixture(),
//!     without: [truncate, prune, erase]
//! }
//! ```
//!
//! # A store of a single process
//!
//! Some behaviors drop all handles of a durable store and then open it again, so the fixture must not hold a handle
//! itself. Some stores cannot be open twice, for example because they lock their file. The fixture of such a store
//! returns the store that is already open, if there is one. It finds it with a [`Weak`](std::sync::Weak) reference:
//!
//! ```
//! use std::sync::{Arc, Weak};
//!
//! use tower_chat_history_conformance::store::{Capabilities, Fixture};
//! use tower_chat_history_core::HistoryStore;
//! # #[derive(Debug)] struct MyStore;
//! # impl MyStore { async fn open(_: &str) -> Arc<dyn HistoryStore> { unimplemented!() } }
//!
//! struct MyFixture {
//!     path: String,
//!     // An asynchronous lock, such as tokio's, which is held while the store is opened.
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
//! For other test harnesses, [`behaviors`] returns the same behaviors as a list of names and functions.
//!
//! Each behavior uses its own conversations, so all of them may run at the same time on one storage. The storage may be
//! in use, and nothing of others is removed. One behavior [bars] all conversations: the storage then refuses the first
//! turns that began before, also those of others.
//!
//! [`HistoryStore`]: tower_chat_history_core::HistoryStore
//! [truncate]: tower_chat_history_core::Truncate
//! [prune]: tower_chat_history_core::Prune
//! [erases]: tower_chat_history_core::Erase
//! [bars]: tower_chat_history_core::Erase::bar

mod behavior;
mod capability;
mod fixture;
mod list;
mod tests_by_name;

#[macro_use]
mod with;
// From here on, its macros replace those of the standard library.
#[macro_use]
mod say;

mod handles;
mod owned;
mod support;

pub mod added;
pub mod append;
pub mod back;
pub mod cancel;
pub mod compact_with_append;
pub mod compaction;
pub mod content;
pub mod continues;
pub mod conversation;
pub mod deletion;
pub mod dialect;
pub mod dialect_changes;
pub mod editing;
pub mod elements;
pub mod empty;
pub mod epochs;
pub mod erase;
pub mod erase_bar;
pub mod erase_count;
pub mod erase_if;
pub mod erase_model;
pub mod erase_race;
pub mod expect;
pub mod first;
pub mod idempotent;
pub mod isolation;
pub mod kept;
pub mod labels;
pub mod late;
pub mod limit;
pub mod listing;
pub mod listing_pages;
pub mod load;
pub mod metadata;
pub mod nul;
pub mod profiles;
pub mod provenance;
pub mod prune;
pub mod prune_compaction;
pub mod prune_model;
pub mod prune_race;
pub mod race;
pub mod read;
pub mod recalled;
pub mod reopen;
pub mod retain;
pub mod sealed;
pub mod system;
pub mod truncate;
pub mod truncate_compaction;
pub mod truncate_race;
pub mod truncate_to_nothing;

pub use self::{
    behavior::{Behavior, behaviors},
    capability::Capability,
    fixture::{Capabilities, Fixture, SharedStore},
    list::all,
};
