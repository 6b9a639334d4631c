//! Callers that give up: the future is dropped before it is complete.

use tower_chat_history_core::{Append, Compact, CompactionVersion, Cut, Expect, Load, Profile, Recorded, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::ATOMIC;

/// The number of times that the futures are polled before they are dropped.
const POLLS: [usize; 6] = [0, 1, 2, 3, 10, 100];

/// A dropped append has stored its whole exchange or nothing. A repeat under the same id stores the exchange if it is
/// missing.
pub async fn a_dropped_append_is_settled_by_a_repeat(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(1).await;
    for polls in POLLS {
        let exchange = turn_of(&format!("{polls} polls"));
        abandon(chat.append(Expect::AnyOrCreate, exchange.clone()), polls).await;
        for recorded in &chat.log().await[log.len()..] {
            assert_eq!(*recorded.exchange, exchange, "an append was dropped");
        }
        let repeated = chat.append(Expect::AnyOrCreate, exchange.clone()).await.must("the store still works", &CLAUSE);
        log.push(Recorded::new(repeated.seq, exchange));
        assert_eq!(chat.log().await, log, "after {polls} polls");
    }
}

/// The same holds for the append that creates the conversation.
pub async fn a_dropped_first_append_is_settled_by_a_repeat(fixture: &dyn Fixture) {
    let store = Chat::new(fixture).await;
    for polls in POLLS {
        let chat = store.other();
        let exchange = turn_of("first");
        abandon(chat.append(Expect::Absent, exchange.clone()), polls).await;
        let repeated = chat.append(Expect::Absent, exchange.clone()).await.must("nothing else is there", &CLAUSE);
        assert_eq!(repeated.seq, Seq::FIRST);
        assert_eq!(chat.log().await, [Recorded::new(Seq::FIRST, exchange)], "after {polls} polls");
    }
}

/// A dropped append with a compaction stored both or neither.
pub async fn a_dropped_append_stores_its_compaction_with_it(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.add_turns(1).await;
    for polls in POLLS {
        let before = chat.window(Load::new()).await;
        let exchange = turn_of(&format!("{polls} polls"));
        let own = Seq::new(chat.log().await.len() as u64);
        let compact = Compact::new(Profile::default(), before.compaction_version(), Cut::window_from(own));
        let append = Append::new(Expect::AnyOrCreate, exchange.clone()).compact(compact);
        abandon(chat.store.append(&chat.id, append.clone()), polls).await;
        let after = chat.window(Load::new()).await;
        let both = after.revision != before.revision && after.compaction_version() != before.compaction_version();
        assert!(both || after == before, "after {polls} polls one without the other");
        chat.store.append(&chat.id, append).await.must("the store still works", &CLAUSE);
        let settled = chat.window(Load::new()).await;
        assert_eq!(settled.compaction.map(|compaction| compaction.cut.window_start), Some(own));
        assert_eq!(settled.exchanges, [Recorded::new(own, exchange)]);
    }
}

/// If calls are dropped at every stage, the store still answers all other calls.
pub async fn a_store_outlives_dropped_calls(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(3).await;
    let incarnation = chat.incarnation().await;
    let compact = Compact::new(profile("abandoned"), CompactionVersion::NONE, Cut::window_from(Seq::new(1)));
    let other = chat.other();
    for polls in POLLS.into_iter().cycle().take(30) {
        other.add(turn_of("to be deleted")).await;
        abandon(chat.load(Load::new()), polls).await;
        abandon(chat.log(), polls).await;
        abandon(chat.store.compact(&chat.id, incarnation, compact.clone()), polls).await;
        abandon(other.delete(), polls).await;
    }
    other.delete().await;
    other.assert_absent().await;
    assert_eq!(chat.window(Load::new()).await.exchanges, added);
    assert_eq!(chat.log().await, added);
}
