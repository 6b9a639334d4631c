//! The store of the guide "Writing a store" passes the conformance suite, and so does the same store with truncation
//! and pruning.

use tower_chat_history_conformance::{conformance_tests, store::Handle};
use tower_chat_history_core::{
    Derived, Exchange, Expect, Prune, PruneTo, Pruned, Truncate, Truncated, backend::PruneScan,
};

include!("../../crates/tower-chat-history-core/docs/writing_a_store.rs");

impl Log {
    /// Removes all compactions but this one, which stays if it replaces the stored one.
    fn keep_compaction(&mut self, keep: Option<Compact>) {
        let before = std::mem::take(&mut self.compactions);
        let Some(keep) = keep else { return };
        if before.get(&keep.profile).is_some_and(|stored| stored.version == keep.replaces) {
            let stored = keep.stored_as(keep.replaces.next());
            self.compactions.insert(keep.profile, stored);
        }
    }

    /// Returns `true` if the recalled messages of an exchange cite something else than the log has.
    fn cites_others(&self, exchange: &Exchange) -> bool {
        let first = i64::try_from(self.revision().first().get()).unwrap_or(i64::MAX);
        let cited = exchange.recalled.as_ref().and_then(|recalled| recalled.least_cited());
        cited.is_some_and(|cited| cited < first)
    }

    /// Removes the recalled messages that cite a removed exchange or another conversation, and all provenances.
    fn forget_derived(&mut self) {
        let cites: Vec<bool> = self.exchanges.iter().map(|recorded| self.cites_others(&recorded.exchange)).collect();
        for (Recorded { exchange, .. }, cites_others) in self.exchanges.iter_mut().zip(cites) {
            if cites_others {
                Arc::make_mut(exchange).recalled = None;
            }
            if exchange.provenance.is_some() {
                Arc::make_mut(exchange).provenance = None;
            }
        }
    }
}

#[async_trait]
impl Truncate for MapStore {
    async fn truncate(
        &self,
        id: &ConversationId,
        expect: Revision,
        from: Seq,
        keep: Option<Compact>,
    ) -> Result<Truncated, StoreError> {
        let mut conversations = self.conversations();
        let log = conversations.logs.get_mut(id).ok_or(StoreError::Gone)?;
        Expect::Exactly(expect).check(Some(log.revision()))?;
        let removed = log.since(from).len();
        if removed == 0 {
            return Ok(Truncated::new(Some(log.revision()), 0));
        }
        log.exchanges.truncate(log.exchanges.len() - removed);
        log.incarnation = Incarnation::random();
        log.keep_compaction(keep);
        let revision = (!log.exchanges.is_empty()).then(|| log.revision());
        if revision.is_none() {
            conversations.logs.remove(id);
            conversations.erasures.record_deletion(id);
        }
        Ok(Truncated::new(revision, removed as u64))
    }
}

#[async_trait]
impl Prune for MapStore {
    async fn prune(
        &self,
        id: &ConversationId,
        incarnation: Incarnation,
        keep: PruneTo,
        derived: Derived,
    ) -> Result<Pruned, StoreError> {
        let mut conversations = self.conversations();
        let log =
            conversations.logs.get_mut(id).filter(|log| log.incarnation == incarnation).ok_or(StoreError::Gone)?;
        let mut scan = PruneScan::new(keep, log.revision().next());
        let end = scan.end();
        for Recorded { seq, exchange, .. } in log.exchanges.iter().rev().filter(|recorded| recorded.seq < end) {
            if scan.offer(*seq, exchange.opens_turn(), exchange.messages.len()).is_break() {
                break;
            }
        }
        let before = log.exchanges.len();
        if let Some(start) = scan.start() {
            log.exchanges = log.since(start).to_vec();
        }
        let has_foreign = || log.exchanges.iter().any(|recorded| log.cites_others(&recorded.exchange));
        if derived == Derived::Erase && (log.revision().first() > Seq::FIRST || has_foreign()) {
            log.incarnation = Incarnation::random();
            let first = log.revision().first();
            log.compactions.values_mut().for_each(|stored| *stored = stored.without_derived(first));
            log.forget_derived();
        }
        Ok(Pruned::new(log.revision(), (before - log.exchanges.len()) as u64))
    }
}

mod guide {
    use super::*;

    conformance_tests! {
        #[tokio::test]
        Handle::new(MapStore::default()),
        without: [Durable, Truncate, Prune, Fork, Erase]
    }
}

mod extended {
    use super::*;

    fn handle() -> Handle {
        let store = MapStore::default();
        Handle::new(store.clone()).truncate(store.clone()).prune(store)
    }

    conformance_tests! {
        #[tokio::test]
        handle(),
        without: [Durable, Fork, Erase]
    }
}
