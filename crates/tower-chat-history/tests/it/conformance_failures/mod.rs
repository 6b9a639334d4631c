//! Stores that break the contract: the conformance suite reports the expectation, the store's answer and the
//! clause.

mod erase;

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use async_trait::async_trait;
use futures_util::FutureExt;
use tower_chat_history::{
    ConversationId, ExchangeId, HistoryStore, MemoryStore, Message, StoreError,
    store::{
        Append, Appended, Compact, CompactOutcome, Derived, Expect, Incarnation, Load, LoadLimit, Loaded, Page, Prune,
        PruneTo, Pruned, Recorded, Revision, Seq, Truncate, Truncated, Window,
    },
};
use tower_chat_history_conformance::store::{Behavior, Capabilities, Fixture, behaviors};
use tower_chat_history_core::{Erase, Labels, LabelsVersion};

/// A fault of a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Appends are stored, whatever they expect.
    Unconditional,
    /// A load returns the older half of its window.
    OldWindow,
    /// A load returns the size of its window as that of the log.
    SizeOfWindow,
    /// Exchanges are added to a state whose newest exchange was lost.
    AddsToLost,
    /// Messages lose white space when they are read back.
    Reformatted,
    /// Positions are counted from 1.
    CountsFromOne,
    /// Delete, truncate, prune and erase report success and remove nothing.
    NothingRemoved,
    /// Every read fails.
    Unreadable,
    /// Exchange ids are known only among the newest 100 exchanges.
    ForgetsIds,
    /// The first exchanges of a turn with more than 50 exchanges are lost.
    CutsTurns,
    /// The message limit of a load is truncated to 16 bits.
    NarrowLimit,
    /// Messages are counted up to 65,535.
    NarrowCount,
    /// The store has another name after the first append.
    OtherName,
    /// Recalled messages are lost when an exchange is read back.
    ForgetsRecalled,
    /// Exchanges come back without their provenance.
    ForgetsProvenance,
    /// Logs begin at position 0, whatever their first append names.
    BeginsAtZero,
    /// First turns are stored, even if their conversation was erased.
    IgnoresEpochs,
    /// Only deletions refuse first turns.
    IgnoresBars,
    /// A prefix contains all ids whose text begins with it.
    PrefixesOfText,
    /// A page begins with the conversation at its cursor.
    RepeatsAtCursors,
    /// The newest exchange sets the time of the last update.
    UpdatedByTheNewest,
    /// Labels replace any version.
    UnconditionalLabels,
    /// Labels stay when their conversation is deleted.
    LabelsOutlive,
    /// Erasures do not count exchange ids.
    CountsNoIds,
    /// A conversation is erased at any revision.
    ErasesAnyRevision,
}

/// The number of newest exchanges whose ids the fault [`Fault::ForgetsIds`] keeps.
const KNOWN_IDS: u64 = 100;
/// The number of newest exchanges of a turn that the fault [`Fault::CutsTurns`] keeps.
const KEPT_EXCHANGES: usize = 50;

/// A store with a fault.
#[derive(Clone, Debug)]
struct Faulty {
    store: MemoryStore,
    fault: Fault,
    appended: Arc<AtomicBool>,
    /// The labels that the fault [`Fault::LabelsOutlive`] keeps.
    labels: Arc<Mutex<HashMap<ConversationId, (Labels, LabelsVersion)>>>,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self { store: MemoryStore::new(), fault, appended: Arc::default(), labels: Arc::default() }
    }

    /// Returns whether the exchange is in the log, but so far back that the fault forgets its id.
    async fn is_forgotten(&self, id: &ConversationId, exchange: &ExchangeId) -> Result<bool, StoreError> {
        if self.fault != Fault::ForgetsIds {
            return Ok(false);
        }
        let Loaded::AlreadyRecorded(recorded) = self.store.load(id, Load::new().exchange(exchange.clone())).await?
        else {
            return Ok(false);
        };
        let page = self.store.read(id, Seq::FIRST, 0).await?;
        Ok(page.revision.is_some_and(|revision| recorded.seq.get() + KNOWN_IDS < revision.next().get()))
    }

    /// Returns the limit as the fault changes it.
    fn limit(&self, limit: LoadLimit) -> LoadLimit {
        let messages = match self.fault {
            Fault::NarrowLimit => (limit.messages() % (1 << 16)).max(1),
            // A saturating sum never exceeds this limit.
            Fault::NarrowCount if limit.messages() >= (1 << 16) - 1 => usize::MAX,
            _ => limit.messages(),
        };
        LoadLimit::new(messages, limit.bytes()).unwrap()
    }

    /// Shortens the window as the fault does.
    fn shorten(&self, window: &mut Window) {
        let exchanges = &mut window.exchanges;
        if self.fault == Fault::OldWindow {
            exchanges.truncate(exchanges.len() / 2);
        }
        if self.fault == Fault::SizeOfWindow {
            window.log_bytes = exchanges.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
        }
        if self.fault == Fault::CutsTurns {
            let opening = exchanges.iter().rposition(|recorded| recorded.exchange.opens_turn()).unwrap_or_default();
            if exchanges.len() - opening > KEPT_EXCHANGES {
                exchanges.drain(..exchanges.len() - KEPT_EXCHANGES);
                window.truncated = true;
            }
        }
    }

    /// Returns the exchange as the fault changes it when it is read back.
    fn read_back(&self, mut recorded: Recorded) -> Recorded {
        if self.fault == Fault::Reformatted {
            let mut exchange = (*recorded.exchange).clone();
            for message in &mut exchange.messages {
                let Some(dialect) = message.dialect() else { continue };
                *message = Message::in_dialect(dialect, message.json().replace(' ', "")).unwrap();
            }
            recorded.exchange = Arc::new(exchange);
        }
        if self.fault == Fault::ForgetsRecalled {
            let mut exchange = (*recorded.exchange).clone();
            exchange.recalled = None;
            recorded.exchange = Arc::new(exchange);
        }
        if self.fault == Fault::ForgetsProvenance {
            let mut exchange = (*recorded.exchange).clone();
            exchange.provenance = None;
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
        if self.fault == Fault::OtherName && self.appended.load(Relaxed) { "other" } else { self.store.system() }
    }

    async fn load(&self, id: &ConversationId, mut load: Load) -> Result<Loaded, StoreError> {
        load.limit = self.limit(load.limit);
        if let Some(exchange) = &load.exchange
            && self.is_forgotten(id, exchange).await?
        {
            load.exchange = None;
        }
        if let (Fault::AddsToLost, true, Some(known)) = (self.fault, load.or_added, &mut load.known) {
            let newest = Seq::new(known.revision.version().saturating_sub(1));
            let page = self.store.read(id, newest, 1).await?;
            known.newest = page.exchanges.first().map(|recorded| recorded.exchange.id.clone());
        }
        Ok(match self.store.load(id, load).await? {
            Loaded::Window(mut window) => {
                self.shorten(&mut window);
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
        if self.fault == Fault::BeginsAtZero {
            append.first = Seq::FIRST;
        }
        if self.fault == Fault::IgnoresEpochs {
            append.since = None;
        }
        if self.is_forgotten(id, &append.exchange.id).await? {
            Arc::make_mut(&mut append.exchange).id = ExchangeId::generate();
        }
        self.appended.store(true, Relaxed);
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
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        if self.fault == Fault::NothingRemoved {
            return Ok(Pruned::new(Revision::new(incarnation, 1), 1));
        }
        self.store.prune(id, incarnation, keep, derived).await
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

    async fn open_erase(&self) -> Option<Arc<dyn Erase>> {
        Some(Arc::new(self.clone()))
    }
}

/// Returns the failure message of a behavior, if a store with this fault fails it.
async fn failure(fault: Fault, behavior: Behavior) -> Option<String> {
    let fixture = Faulty::new(fault);
    let panic = AssertUnwindSafe(behavior.run(&fixture)).catch_unwind().await.err()?;
    let message = panic.downcast_ref::<String>().cloned();
    message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

async fn failure_of(fault: Fault, name: &str) -> String {
    let behavior = behaviors().into_iter().find(|behavior| behavior.name() == name).unwrap();
    failure(fault, behavior).await.unwrap()
}

/// Asserts that the suite finds the fault, and that each failure message has the expectation, the answer and
/// the clause.
async fn assert_readable(fault: Fault) {
    let mut found = 0;
    for behavior in behaviors() {
        let Some(message) = failure(fault, behavior).await else { continue };
        found += 1;
        let says = |part: &str| message.contains(part);
        let readable = says("contract: ") && says("expected: ") && says("the store returned: ");
        let name = behavior.name();
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
    a_store_that_reports_the_size_of_the_window_is_told_so_readably: SizeOfWindow
    a_store_that_adds_to_a_state_with_a_lost_exchange_is_told_so_readably: AddsToLost
    a_store_that_changes_bytes_is_told_so_readably: Reformatted
    a_store_that_counts_from_one_is_told_so_readably: CountsFromOne
    a_store_that_removes_nothing_is_told_so_readably: NothingRemoved
    a_store_that_cannot_read_is_told_so_readably: Unreadable
    a_store_that_forgets_old_ids_is_told_so_readably: ForgetsIds
    a_store_that_cuts_long_turns_is_told_so_readably: CutsTurns
    a_store_that_takes_limits_as_narrow_numbers_is_told_so_readably: NarrowLimit
    a_store_that_counts_in_narrow_numbers_is_told_so_readably: NarrowCount
    a_store_that_changes_its_name_is_told_so_readably: OtherName
    a_store_that_forgets_recalled_messages_is_told_so_readably: ForgetsRecalled
    a_store_that_forgets_provenances_is_told_so_readably: ForgetsProvenance
    a_store_that_begins_all_logs_at_zero_is_told_so_readably: BeginsAtZero
    a_store_that_ignores_epochs_is_told_so_readably: IgnoresEpochs
    a_store_that_ignores_bars_is_told_so_readably: IgnoresBars
    a_store_that_takes_prefixes_of_text_is_told_so_readably: PrefixesOfText
    a_store_that_repeats_at_cursors_is_told_so_readably: RepeatsAtCursors
    a_store_that_forgets_the_latest_time_is_told_so_readably: UpdatedByTheNewest
    a_store_that_replaces_any_labels_is_told_so_readably: UnconditionalLabels
    a_store_that_keeps_labels_of_deleted_conversations_is_told_so_readably: LabelsOutlive
    a_store_that_miscounts_erasures_is_told_so_readably: CountsNoIds
    a_store_that_erases_any_revision_is_told_so_readably: ErasesAnyRevision
}

#[tokio::test]
async fn an_append_that_is_not_refused_fails_with_the_clause_on_conditions() {
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
async fn a_message_with_other_bytes_fails_with_the_first_difference() {
    let message = failure_of(Fault::Reformatted, "content::white_space_comes_back").await;
    assert!(
        message.contains("Messages are returned byte for byte.") && message.contains("from byte 1 on"),
        "{message}"
    );
}

#[tokio::test]
async fn an_erasure_of_other_conversations_fails_with_the_clause_on_prefixes() {
    let message = failure_of(Fault::PrefixesOfText, "erase::a_prefix_is_erased_and_nothing_else").await;
    assert!(message.contains("Only conversations that the prefix contains are erased."), "{message}");
}

#[tokio::test]
#[should_panic(expected = "without: [truncate]")]
async fn a_store_that_cannot_truncate_does_not_pass_a_test_of_truncation() {
    let store: Arc<dyn HistoryStore> = Arc::new(MemoryStore::new());
    tower_chat_history_conformance::store::truncate::the_end_of_the_log_is_removed(&store).await;
}
