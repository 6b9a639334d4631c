//! The rules of compactions in the database are those of the core crate.

use libtest_mimic::Trial;
use test_servers::trials;
use tower_chat_history::MemoryStore;
use tower_chat_history_core::{
    Append, Compact, CompactOutcome, CompactionVersion, ConversationId, Cut, Exchange, ExchangeId, Expect,
    HistoryStore, Incarnation, Load, Loaded, Message, Profile, Seq, StoreError, Summary,
};

use crate::support::{conversation, database, single};

pub(crate) fn tests() -> Vec<Trial> {
    trials![compactions_are_accepted_as_in_the_memory_store]
}

/// Pseudo-random numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn cut(&mut self, len: u64) -> Cut {
        let mut cut = Cut::window_from(Seq::new(self.below(len + 2)));
        cut.rounds_start = Seq::new(self.below(len + 2));
        cut.cleared_before = Seq::new(self.below(len + 2));
        cut.recalled_from = Seq::new(self.below(len + 2));
        cut.reasoning_from = Seq::new(self.below(len + 2));
        cut.encrypted_from = Seq::new(self.below(len + 2));
        if self.below(2) == 0 {
            cut.summary = Some(Summary::new("s", Seq::new(self.below(len + 2))));
        }
        cut
    }
}

fn outcome<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> String {
    match result {
        Ok(stored) => format!("{stored:?}"),
        Err(error) => format!("{error:?}"),
    }
}

async fn incarnation(store: &dyn HistoryStore, id: &ConversationId) -> Incarnation {
    match store.load(id, Load::new()).await.unwrap() {
        Loaded::Window(window) => window.revision.incarnation(),
        other => panic!("{other:?}"),
    }
}

async fn compactions_are_accepted_as_in_the_memory_store() {
    let (ours, memory) = (single(&database().await).await, MemoryStore::new());
    let mut numbers = Numbers(7);
    let (mut stored, mut refused) = (0, 0);
    for round in 0..12 {
        let id = conversation(&round.to_string());
        let (mut len, mut version) = (0, 0);
        for step in 0..40 {
            let mut exchange = Exchange::new(ExchangeId::new(format!("{round}.{step}")).unwrap(), [Message::user("x")]);
            if len > 0 && numbers.below(2) == 0 {
                exchange = exchange.continuing(Seq::new(len - 1));
            }
            let replaces = CompactionVersion::new(if numbers.below(8) == 0 { version + 1 } else { version });
            let compact = Compact::new(Profile::default(), replaces, numbers.cut(len));
            let found = if len > 0 && numbers.below(2) == 0 {
                let found = ours.compact(&id, incarnation(&ours, &id).await, compact.clone()).await;
                let expected = memory.compact(&id, incarnation(&memory, &id).await, compact).await;
                assert_eq!(outcome(&found), outcome(&expected), "round {round}, step {step}");
                found.map(Some)
            } else {
                let append = Append::new(Expect::AnyOrCreate, exchange).compact(compact);
                let found = ours.append(&id, append.clone()).await.map(|appended| (appended.seq, appended.compaction));
                let expected = memory.append(&id, append).await.map(|appended| (appended.seq, appended.compaction));
                assert_eq!(outcome(&found), outcome(&expected), "round {round}, step {step}");
                len += u64::from(found.is_ok());
                found.map(|(_, compaction)| compaction)
            };
            match found {
                Ok(Some(CompactOutcome::Stored(now))) => {
                    version = now.get();
                    stored += 1;
                }
                Err(_) => refused += 1,
                Ok(_) => {}
            }
        }
    }
    assert!(stored > 30 && refused > 100, "{stored} stored, {refused} refused");
}
