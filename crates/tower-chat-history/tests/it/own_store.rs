//! A store of one's own, written against this crate alone, and held to the contract.
#![allow(clippy::unwrap_used)] // A test may.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use tower_chat_history::{
    Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, Derived, Exchange,
    ExchangeId, HistoryStore, Incarnation, KnownState, Load, LoadLimit, Loaded, Page, Profile, Prune, PruneScan,
    PruneTo, Pruned, Recorded, Revision, Scan, Seq, StoreError, Truncate, Truncated, Window, WindowScan,
    conformance_tests,
    testing::{Capabilities, Fixture},
};

/// Conversations in a map behind one lock.
#[derive(Clone, Debug, Default)]
struct Own(Arc<Mutex<HashMap<ConversationId, Log>>>);

#[derive(Clone, Debug)]
struct Log {
    incarnation: Incarnation,
    /// The position of the first exchange.
    first: u64,
    exchanges: Vec<Arc<Exchange>>,
    compactions: HashMap<Profile, Compaction>,
}

impl Own {
    fn logs(&self) -> MutexGuard<'_, HashMap<ConversationId, Log>> {
        self.0.lock().unwrap()
    }
}

impl Log {
    fn revision(&self) -> Revision {
        let next = self.first + self.exchanges.len() as u64;
        Revision::new(self.incarnation, next).beginning_at(Seq::new(self.first))
    }

    fn recorded(&self) -> impl DoubleEndedIterator<Item = Recorded> {
        let recorded = |(at, exchange)| Recorded::new(Seq::new(self.first + at as u64), Arc::clone(exchange));
        self.exchanges.iter().enumerate().map(recorded)
    }

    fn find(&self, id: &ExchangeId) -> Option<Recorded> {
        self.recorded().find(|recorded| recorded.exchange.id == *id)
    }

    /// Keeps of each compaction what is to stay.
    fn keep_of_each(&mut self, stays: impl Fn(&Compaction) -> Option<Compaction>) {
        let compactions = std::mem::take(&mut self.compactions).into_iter();
        self.compactions = compactions.filter_map(|(profile, stored)| Some((profile, stays(&stored)?))).collect();
    }

    fn compact(&mut self, Compact { profile, replaces, cut }: Compact) -> Result<CompactOutcome, StoreError> {
        let stored = self.compactions.get(&profile);
        if stored.map_or(CompactionVersion::NONE, |stored| stored.version) != replaces {
            return Ok(CompactOutcome::Kept(stored.cloned()));
        }
        let opens = |seq| self.recorded().find(|at| at.seq == seq).is_none_or(|at| at.exchange.opens_turn());
        cut.check(stored.map(|stored| &stored.cut), self.revision().next().get(), opens)?;
        self.compactions.insert(profile, Compaction::new(replaces.next(), cut));
        Ok(CompactOutcome::Stored(replaces.next()))
    }

    fn window(&self, profile: &Profile, limit: LoadLimit) -> Window {
        let compaction = self.compactions.get(profile).cloned();
        let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.cut.window_start);
        let mut scan = WindowScan::new(limit);
        for Recorded { seq, exchange, .. } in self.recorded().rev().take_while(|recorded| recorded.seq >= start) {
            if scan.offer(seq, exchange.opens_turn(), exchange.messages.len(), exchange.bytes()) == Scan::Stop {
                break;
            }
        }
        let exchanges = self.recorded().filter(|recorded| scan.start().is_some_and(|start| recorded.seq >= start));
        Window::new(self.revision(), compaction, exchanges.collect(), scan.is_truncated())
    }
}

#[async_trait]
impl HistoryStore for Own {
    fn system(&self) -> &'static str {
        "own"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let logs = self.logs();
        let Some(log) = logs.get(id) else { return Ok(Loaded::Absent) };
        if let Some(recorded) = load.exchange.as_ref().and_then(|id| log.find(id)) {
            return Ok(Loaded::AlreadyRecorded(recorded));
        }
        let window = log.window(&load.profile, load.limit);
        let unchanged = load.known.is_some_and(|known: KnownState| window.is_known(&known));
        Ok(if unchanged { Loaded::Unchanged } else { Loaded::Window(window) })
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let mut logs = self.logs();
        let Append { expect, exchange, compact, .. } = append;
        if let Some(log) = logs.get(id)
            && let Some(recorded) = log.find(&exchange.id)
        {
            return Ok(Appended::duplicate(log.revision(), recorded.seq));
        }
        expect.check(logs.get(id).map(Log::revision))?;
        let new =
            || Log { incarnation: Incarnation::random(), first: 0, exchanges: vec![], compactions: HashMap::new() };
        // It is changed in a copy, which takes the log's place if nothing is refused.
        let mut log = logs.get(id).cloned().unwrap_or_else(new);
        let at = log.revision().next();
        if let Some(continues) = exchange.continues.filter(|continues| *continues >= at) {
            return Err(StoreError::ContinuesUnknown { continues, len: at.get() });
        }
        log.exchanges.push(Arc::new(exchange));
        let compaction = compact.map(|compact| log.compact(compact)).transpose()?;
        let appended = Appended::stored(log.revision(), at, compaction);
        logs.insert(id.clone(), log);
        Ok(appended)
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let mut logs = self.logs();
        let log = logs.get_mut(id).filter(|log| log.incarnation == incarnation).ok_or(StoreError::Gone)?;
        log.compact(compact)
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let logs = self.logs();
        let Some(log) = logs.get(id) else { return Ok(Page::absent()) };
        let mut exchanges: Vec<_> = log.recorded().filter(|recorded| recorded.seq >= from).collect();
        let more = exchanges.len() > limit;
        exchanges.truncate(limit);
        Ok(Page::new(log.revision(), exchanges, more))
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        self.logs().remove(id);
        Ok(())
    }
}

#[async_trait]
impl Truncate for Own {
    async fn truncate(&self, id: &ConversationId, expect: Revision, from: Seq) -> Result<Truncated, StoreError> {
        let mut logs = self.logs();
        let log = logs.get_mut(id).ok_or(StoreError::Gone)?;
        tower_chat_history::Expect::Exactly(expect).check(Some(log.revision()))?;
        let (before, keep) = (log.exchanges.len(), from.get().saturating_sub(log.first));
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        if keep >= before {
            return Ok(Truncated::new(Some(log.revision()), 0));
        }
        log.exchanges.truncate(keep);
        log.incarnation = Incarnation::random();
        log.keep_of_each(|stored| stored.truncated_to(from.get()));
        let revision = (keep > 0).then(|| log.revision());
        if revision.is_none() {
            logs.remove(id);
        }
        Ok(Truncated::new(revision, (before - keep) as u64))
    }
}

#[async_trait]
impl Prune for Own {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        traces: Derived,
    ) -> Result<Pruned, StoreError> {
        let mut logs = self.logs();
        let log = logs.get_mut(id).filter(|log| log.incarnation == incarnation).ok_or(StoreError::Gone)?;
        let mut scan = PruneScan::new(keep, log.revision().next());
        let end = scan.end();
        for Recorded { seq, exchange, .. } in log.recorded().rev().filter(|recorded| recorded.seq < end) {
            if scan.offer(seq, exchange.opens_turn(), exchange.messages.len()) == Scan::Stop {
                break;
            }
        }
        let removed = scan.start().map_or(0, |start| start.get() - log.first);
        log.exchanges.drain(..usize::try_from(removed).unwrap_or_default());
        log.first += removed;
        if traces == Derived::Erase && log.first > 0 {
            log.incarnation = Incarnation::random();
            log.keep_of_each(Compaction::without_traces);
        }
        Ok(Pruned::new(log.revision(), removed))
    }
}

#[async_trait]
impl Fixture for Own {
    async fn open(&self) -> Arc<dyn HistoryStore> {
        Arc::new(self.clone())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    async fn open_truncate(&self) -> Option<Arc<dyn Truncate>> {
        Some(Arc::new(self.clone()))
    }

    async fn open_prune(&self) -> Option<Arc<dyn Prune>> {
        Some(Arc::new(self.clone()))
    }
}

conformance_tests! {
    #[tokio::test]
    Own::default(),
    without: [durable]
}
