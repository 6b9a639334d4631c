//! The contract of [`HistoryStore`] as functions to call from a store's tests.
//!
//! Each function tests one behavior of the contract. It takes a [`Fixture`], which opens handles on the store's
//! storage, and panics if the store behaves differently. The functions work with every async runtime: use the one that
//! the store needs.
//!
//! [`conformance_tests!`](crate::conformance_tests) creates a test for each function. A store's crate runs the whole
//! suite with one macro call, in `tests/conformance.rs`:
//!
//! ```
//! use tower_chat_history_conformance::{conformance_tests, store::{Fixture, Handle}};
//! # #[derive(Debug)] struct MyStore;
//! # impl MyStore { async fn open(_: &str) -> std::sync::Arc<dyn tower_chat_history_core::HistoryStore> { unimplemented!() } }
//!
//! struct MyFixture {
//!     path: String,
//! }
//!
//! #[async_trait::async_trait]
//! impl Fixture for MyFixture {
//!     async fn open(&self) -> Handle {
//!         Handle::new(MyStore::open(&self.path).await).durable()
//!     }
//! }
//! # macro_rules! conformance_tests { ($($ignored:tt)*) => {} }
//!
//! conformance_tests! {
//!     #[tokio::test]
//!     MyFixture { path: "a temporary one".into() },
//!     without: [Truncate, Prune, Fork, Erase]
//! }
//! ```
//!
//! Each handle says what its store can do. If the store can do everything, open [`Handle::with_all`] with
//! [`durable`](Handle::durable) and leave out `without`. A store that lives in its process, so that all handles are
//! the same, needs no fixture of its own: a [`Handle`] is one.
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
//! use tower_chat_history_conformance::store::{Fixture, Handle};
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
//!     async fn open(&self) -> Handle {
//!         let mut open = self.open.lock().await;
//!         if let Some(store) = open.upgrade() {
//!             return Handle::new(store).durable();
//!         }
//!         let store = MyStore::open(&self.path).await;
//!         *open = Arc::downgrade(&store);
//!         Handle::new(store).durable()
//!     }
//! }
//! ```
//!
//! For other test harnesses, [`behaviors`] returns the same behaviors as a list of names and functions.
//!
//! Each behavior uses its own conversations, so all of them may run at the same time on one storage. The storage may be
//! in use, and nothing of others is removed. One behavior [records] an erasure of all conversations: the storage then
//! refuses the first turns that began before, also those of others.
//!
//! [`HistoryStore`]: tower_chat_history_core::HistoryStore
//! [records]: tower_chat_history_core::Erase::bar

mod fixture;
mod list;
mod owned;
mod support;

pub mod append;
pub mod compact_with_append;
pub mod compaction;
pub mod content;
pub mod conversation;
pub mod copy;
pub mod deletion;
pub mod dialect;
pub mod erase;
pub mod erase_race;
pub mod fork;
pub mod isolation;
pub mod listing;
pub mod load;
pub mod prune;
pub mod race;
pub mod read;
pub mod truncate;

pub use self::{
    fixture::{Capability, Fixture, Handle},
    list::{Behavior, all, behaviors},
};
