//! Stores that break the contract: the conformance suite says what was expected, what the store did, and which clause.
#![allow(clippy::unwrap_used)] // A test may.

use std::{panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::FutureExt;
use tower_chat_history::{
    Append, Appended, Compact, CompactOutcome, ConversationId, Derived, Expect, HistoryStore, Incarnation, Load,
    Loaded, MemoryStore, Message, Page, Prune, PruneTo, Pruned, Recorded, Revision, Seq, StoreError, Truncate,
    Truncated,
};
use tower_chat_history_core::testing::{Behaviour, Capabilities, Fixture, behaviours};

/// A fault of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Appends are stored whatever they expect.
    Unconditional,
    /// A load brings the older half of its window.
    OldWindow,
    /// Messages are read back with white space less.
    Reformatted,
    /// Positions are counted from 1.
    CountsFromOne,
    /// Nothing is ever deleted, truncated or pruned, and the answer is that it was.
    NothingRemoved,
    /// Every read fails.
    Unreadable,
}

/// A store that has a fault.
#[derive(Clone, Debug)]
struct Faulty {
    store: MemoryStore,
    fault: Fault,
}

impl Faulty {
    /// The exchange as it is read back.
    fn read_back(&self, mut recorded: Recorded) -> Recorded {
        if self.fault == Fault::Reformatted {
            let mut exchange = (*recorded.exchange).clone();
            for message in &mut exchange.messages {
                *message = Message::from_json(message.json().replace(' ', "")).unwrap();
            }
            recorded.exchange = Arc::new(exchange);
        }
        if self.fault == Fault::CountsFromOne {
            recorded.seq = recorded.seq.next();
        }
        recorded
    }
}

#[async_trait]
impl HistoryStore for Faulty {
    fn system(&self) -> &'static str {
        self.store.system()
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        Ok(match self.store.load(id, load).await? {
            Loaded::Window(mut window) => {
                if self.fault == Fault::OldWindow {
                    window.exchanges.truncate(window.exchanges.len() / 2);
                }
                window.exchanges = window.exchanges.into_iter().map(|recorded| self.read_back(recorded)).collect();
                Loaded::Window(window)
            }
            Loaded::AlreadyRecorded(recorded) => Loaded::AlreadyRecorded(self.read_back(recorded)),
            loaded => loaded,
        })
    }

    async fn append(&self, id: &ConversationId, mut append: Append) -> Result<Appended, StoreError> {
        if self.fault == Fault::Unconditional {
            append.expect = Expect::AnyOrCreate;
        }
        self.store.append(id, append).await
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        self.store.compact(id, incarnation, compact).await
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        if self.fault == Fault::Unreadable {
            return Err(StoreError::unavailable("the disk is on fire"));
        }
        let mut page = self.store.read(id, from, limit).await?;
        page.exchanges = page.exchanges.into_iter().map(|recorded| self.read_back(recorded)).collect();
        Ok(page)
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        if self.fault == Fault::NothingRemoved { Ok(()) } else { self.store.delete(id).await }
    }
}

#[async_trait]
impl Truncate for Faulty {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        if self.fault == Fault::NothingRemoved {
            return Ok(Truncated::new(Some(expect), 1));
        }
        self.store.truncate(id, expect, from).await
    }
}

#[async_trait]
impl Prune for Faulty {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        if self.fault == Fault::NothingRemoved {
            return Ok(Pruned::new(Revision::new(incarnation, 1), 1));
        }
        self.store.prune(id, incarnation, keep, traces).await
    }
}

#[async_trait]
impl Fixture for Faulty {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().durable(true)
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.clone()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.clone()))
    }
}

/// The message of a behaviour's failure, if the store with that fault fails it.
async fn failure(fault: Fault, behaviour: Behaviour) -> Option<String> {
    let fixture = Faulty { store: MemoryStore::new(), fault };
    let panic = AssertUnwindSafe(behaviour.run(&fixture)).catch_unwind().await.err()?;
    let message = panic.downcast_ref::<String>().cloned();
    message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

async fn failure_of(fault: Fault, name: &str) -> String {
    let behaviour = behaviours().into_iter().find(|behaviour| behaviour.name() == name).unwrap();
    failure(fault, behaviour).await.unwrap()
}

/// Asserts that the fault is found, and that each failure says what was expected, what the store did and which clause.
async fn assert_readable(fault: Fault) {
    let mut found = 0;
    for behaviour in behaviours() {
        let Some(message) = failure(fault, behaviour).await else { continue };
        found += 1;
        let says = |part: &str| message.contains(part);
        let readable = says("contract: ") && says("expected: ") && says("the store returned: ");
        let name = behaviour.name();
        assert!(readable && message.len() < 2_500, "{fault:?}, {name}, {} bytes:\n{message}", message.len());
    }
    assert!(found > 0, "{fault:?} was not found");
}

macro_rules! failures_are_readable {
    ($($test:ident: $fault:ident)+) => {
        $(#[tokio::test]
        async fn $test() {
            assert_readable(Fault::$fault).await;
        })+
    };
}

failures_are_readable! {
    a_store_that_ignores_expectations_is_told_so_readably: Unconditional
    a_store_that_loads_an_old_window_is_told_so_readably: OldWindow
    a_store_that_changes_bytes_is_told_so_readably: Reformatted
    a_store_that_counts_from_one_is_told_so_readably: CountsFromOne
    a_store_that_removes_nothing_is_told_so_readably: NothingRemoved
    a_store_that_cannot_read_is_told_so_readably: Unreadable
}

#[tokio::test]
async fn an_append_that_is_not_refused_is_told_with_the_clause_on_conditions() {
    let message = failure_of(Fault::Unconditional, "expect::a_stale_revision_conflicts").await;
    for part in [
        "contract: StoreError::Conflict: \"The log is not at the revision that the append expects.\"",
        "expected: the refusal `Conflict`",
        "the store returned: Ok(Appended",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test]
async fn a_message_that_came_back_with_other_bytes_is_told_from_where_it_differs() {
    let message = failure_of(Fault::Reformatted, "content::white_space_comes_back").await;
    assert!(message.contains("Messages come back byte for byte.") && message.contains("from byte 1 on"), "{message}");
}

#[tokio::test]
#[should_panic(expected = "without: [truncate]")]
async fn a_store_that_cannot_truncate_does_not_pass_a_test_of_truncation() {
    let store: Arc<dyn HistoryStore> = Arc::new(MemoryStore::new());
    tower_chat_history_core::testing::truncate::the_end_of_the_log_is_removed(&store).await;
}
