use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tower_chat_history_core::{
    Append, Appended, Compact, CompactOutcome, Compaction, CompactionVersion, ConversationId, ExchangeId, HistoryStore,
    Incarnation, Load, Loaded, Page, Profile, Recorded, Revision, Seq, StoreError, Window,
    backend::{Erasures, WindowScan},
};

/// Conversations in a map behind one lock.
#[derive(Clone, Debug, Default)]
pub struct MapStore(Arc<Mutex<Conversations>>);

#[derive(Debug, Default)]
struct Conversations {
    logs: HashMap<ConversationId, Log>,
    erasures: Erasures,
}

/// One conversation, which has at least one exchange.
#[derive(Debug)]
struct Log {
    incarnation: Incarnation,
    exchanges: Vec<Recorded>,
    compactions: HashMap<Profile, Compaction>,
}

impl MapStore {
    fn conversations(&self) -> MutexGuard<'_, Conversations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn new() -> Self {
        Self { incarnation: Incarnation::random(), exchanges: Vec::new(), compactions: HashMap::new() }
    }

    fn revision(&self) -> Revision {
        let first = self.exchanges.first().map_or(Seq::FIRST, |first| first.seq);
        let next = self.exchanges.last().map_or(Seq::FIRST, |last| last.seq.next());
        Revision::new(self.incarnation, next.get()).beginning_at(first)
    }

    fn find(&self, id: &ExchangeId) -> Option<&Recorded> {
        self.exchanges.iter().find(|recorded| recorded.exchange.id == *id)
    }

    fn since(&self, start: Seq) -> &[Recorded] {
        &self.exchanges[self.exchanges.partition_point(|recorded| recorded.seq < start)..]
    }

    fn window(&self, load: &Load) -> Window {
        let compaction = self.compactions.get(&load.profile).cloned();
        let start = compaction.as_ref().map_or(Seq::FIRST, |compaction| compaction.window_start);
        let mut scan = WindowScan::new(load.limit);
        for Recorded { seq, exchange, .. } in self.since(start).iter().rev() {
            let messages = exchange.counted_messages();
            let offered = scan.offer(*seq, exchange.opens_turn(), messages, exchange.bytes(), exchange.media_bytes());
            if offered.is_break() {
                break;
            }
        }
        let exchanges = scan.start().map_or(Vec::new(), |start| self.since(start).to_vec());
        let log_bytes = self.exchanges.iter().map(|recorded| recorded.exchange.bytes() as u64).sum();
        Window::new(self.revision(), compaction, exchanges, scan.is_truncated()).log_bytes(log_bytes)
    }

    fn compact(&mut self, compact: Compact) -> CompactOutcome {
        let stored = self.compactions.get(&compact.profile);
        if stored.map_or(CompactionVersion::NONE, |stored| stored.version) != compact.replaces {
            return CompactOutcome::Kept(stored.cloned());
        }
        let version = compact.replaces.next();
        let stored = compact.stored_as(version);
        self.compactions.insert(compact.profile, stored);
        CompactOutcome::Stored(version)
    }
}

#[async_trait]
impl HistoryStore for MapStore {
    fn system(&self) -> &'static str {
        "memory"
    }

    async fn load(&self, id: &ConversationId, load: Load) -> Result<Loaded, StoreError> {
        let conversations = self.conversations();
        let Some(log) = conversations.logs.get(id) else {
            return Ok(Loaded::Absent(conversations.erasures.current()));
        };
        if let Some(recorded) = load.exchange.as_ref().and_then(|id| log.find(id)) {
            return Ok(Loaded::AlreadyRecorded(recorded.clone()));
        }
        let window = log.window(&load);
        let unchanged = load.known.is_some_and(|known| window.is_known(&known));
        Ok(if unchanged { Loaded::Unchanged } else { Loaded::Window(window) })
    }

    async fn append(&self, id: &ConversationId, append: Append) -> Result<Appended, StoreError> {
        let Append { expect, since, first, exchange, compact, .. } = append;
        let mut conversations = self.conversations();
        let stored = conversations.logs.get(id);
        if let Some(log) = stored
            && let Some(recorded) = log.find(&exchange.id)
        {
            return Ok(Appended::duplicate(log.revision(), recorded.seq));
        }
        conversations.erasures.check(id, since)?;
        expect.check(stored.map(Log::revision))?;
        let seq = stored.map_or(first, |log| log.revision().next());
        if let Some(continues) = exchange.continues.filter(|continues| stored.is_none() || *continues >= seq) {
            return Err(StoreError::ContinuesUnknown { continues, len: seq.get() });
        }
        let log = conversations.logs.entry(id.clone()).or_insert_with(Log::new);
        log.exchanges.push(Recorded::new(seq, exchange));
        let compaction = compact.map(|compact| log.compact(compact));
        Ok(Appended::stored(log.revision(), seq, compaction))
    }

    async fn compact(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        compact: Compact,
    ) -> Result<CompactOutcome, StoreError> {
        let mut conversations = self.conversations();
        let log = conversations.logs.get_mut(id).filter(|log| log.incarnation == incarnation).ok_or(StoreError::Gone)?;
        Ok(log.compact(compact))
    }

    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Page, StoreError> {
        let conversations = self.conversations();
        let Some(log) = conversations.logs.get(id) else { return Ok(Page::absent()) };
        let rest = log.since(from);
        Ok(Page::new(log.revision(), rest.iter().take(limit).cloned().collect(), rest.len() > limit))
    }

    async fn delete(&self, id: &ConversationId) -> Result<(), StoreError> {
        let mut conversations = self.conversations();
        conversations.erasures.record_deletion(id);
        conversations.logs.remove(id);
        Ok(())
    }
}
