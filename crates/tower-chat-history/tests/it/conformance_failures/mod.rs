//! Stores that break the contract: the conformance suite finds each fault.

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
        Append, Appended, Compact, CompactOutcome, Derived, Expect, Fork, ForkTo, Forked, Incarnation, Load, LoadLimit,
        Loaded, Page, Prune, PruneTo, Pruned, Recorded, Revision, Seq, Truncate, Truncated, Window,
    },
};
use tower_chat_history_conformance::store::{Handle, behaviors};
use tower_chat_history_core::{Labels, LabelsVersion};

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
    /// A load has no limit of media.
    UnlimitedMedia,
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
    /// Forks copy the whole log.
    ForksAll,
    /// Forks choose an incarnation for their copy.
    ForksAnew,
    /// Copies have the time of their first exchange.
    ForksWithoutTime,
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
        let media_bytes = if self.fault == Fault::UnlimitedMedia { usize::MAX } else { limit.media_bytes() };
        LoadLimit::new(messages, limit.bytes()).unwrap().with_media_bytes(media_bytes)
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
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        if self.fault == Fault::NothingRemoved {
            return Ok(Truncated::new(Some(expect), 1));
        }
        self.store.truncate(id, expect, from, keep).await
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
impl Fork for Faulty {
    async fn fork(&self, id: &ConversationId, incarnation: Incarnation, mut to: ForkTo) -> Result<Forked, StoreError> {
        if self.fault == Fault::ForksAll && to.before > Seq::FIRST {
            to.before = Seq::new(u64::MAX);
        }
        if self.fault == Fault::ForksAnew {
            to.incarnation = Incarnation::random();
        }
        if self.fault == Fault::ForksWithoutTime
            && let Some(first) = self.store.read(id, Seq::FIRST, 1).await?.exchanges.first()
        {
            to.at = first.exchange.at;
        }
        if self.fault == Fault::IgnoresEpochs {
            to.since = None;
        }
        self.store.fork(id, incarnation, to).await
    }
}

/// The behaviors that find each fault.
const FOUND_BY: [(Fault, &[&str]); 29] = [
    (Fault::Unconditional, &["append::other_revisions_conflict"]),
    (Fault::OldWindow, &["append::the_first_append_creates_the_log"]),
    (Fault::SizeOfWindow, &["load::a_window_has_the_size_of_the_whole_log"]),
    (Fault::AddsToLost, &["load::nothing_is_added_to_a_state_that_the_log_never_had"]),
    (Fault::Reformatted, &["content::white_space_comes_back"]),
    (Fault::CountsFromOne, &["read::pages_are_in_order_and_bounded"]),
    (
        Fault::NothingRemoved,
        &[
            "deletion::a_deleted_conversation_is_absent",
            "truncate::the_end_of_the_log_is_removed",
            "prune::the_beginning_of_the_log_is_removed",
            "erase::a_prefix_is_erased_and_nothing_else",
        ],
    ),
    (Fault::Unreadable, &["read::pages_are_in_order_and_bounded"]),
    (Fault::ForgetsIds, &["idempotent::a_repeat_is_recognized_in_a_long_log"]),
    (Fault::CutsTurns, &["limit::the_newest_turn_comes_whole"]),
    (Fault::NarrowLimit, &["limit::a_large_limit_is_not_a_small_one"]),
    (Fault::UnlimitedMedia, &["limit::media_have_a_limit_of_their_own", "content::a_limit_counts_encrypted_media"]),
    (Fault::NarrowCount, &["limit::tens_of_thousands_of_messages_are_counted"]),
    (Fault::OtherName, &["load::the_name_of_the_system_does_not_change"]),
    (Fault::ForgetsRecalled, &["recalled::recalled_messages_come_back"]),
    (Fault::ForgetsProvenance, &["provenance::a_provenance_comes_back"]),
    (Fault::BeginsAtZero, &["first::a_log_begins_where_its_first_append_says"]),
    (Fault::ForksAll, &["fork::the_exchanges_before_the_position_are_copied"]),
    (Fault::ForksAnew, &["fork::a_repeat_finds_its_copy"]),
    (Fault::ForksWithoutTime, &["copy::the_time_is_that_of_the_fork"]),
    (Fault::IgnoresEpochs, &["epochs::a_deletion_refuses_first_turns", "fork::a_copy_that_was_deleted_is_gone"]),
    (Fault::IgnoresBars, &["erase::first_turns_under_the_prefix_are_refused"]),
    (Fault::PrefixesOfText, &["listing::a_prefix_contains_whole_parts", "erase::a_prefix_is_erased_and_nothing_else"]),
    (Fault::RepeatsAtCursors, &["listing::pages_are_in_the_order_of_ids"]),
    (Fault::UpdatedByTheNewest, &["listing::times_are_those_of_exchanges"]),
    (Fault::UnconditionalLabels, &["listing::stale_labels_are_not_stored"]),
    (Fault::LabelsOutlive, &["listing::labels_need_their_incarnation"]),
    (Fault::CountsNoIds, &["erase::everything_is_counted"]),
    (Fault::ErasesAnyRevision, &["erase::another_revision_is_not_erased"]),
];

#[tokio::test]
async fn each_fault_is_found() {
    let behaviors = behaviors();
    for (fault, names) in FOUND_BY {
        for name in names {
            let behavior = behaviors.iter().find(|behavior| behavior.name == *name).unwrap();
            let handle = Handle::with_all(Faulty::new(fault));
            let failure = AssertUnwindSafe(behavior.run(&handle)).catch_unwind().await;
            assert!(failure.is_err(), "{name} did not find {fault:?}");
            behavior.run(&Handle::with_all(MemoryStore::new())).await;
        }
    }
}

#[tokio::test]
#[should_panic(expected = "without: [Truncate]")]
async fn a_store_that_cannot_truncate_does_not_pass_a_test_of_truncation() {
    let handle = Handle::new(MemoryStore::new());
    tower_chat_history_conformance::store::truncate::the_end_of_the_log_is_removed(&handle).await;
}
