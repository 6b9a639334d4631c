//! Durable stores: all handles are dropped and the storage is opened again.

use tower_chat_history_core::{CompactionVersion, Exchange, ExchangeId, Expect, Load, Loaded, Profile, Recorded, Seq};

use super::{Capability, Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::DURABLE;

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Drops the handle and opens another one.
async fn reopen(chat: Chat, fixture: &dyn Fixture) -> Chat {
    let Chat { store, id } = chat;
    drop(store);
    Chat { store: fixture.open().await, id }
}

/// The log, the revision and the compactions of all profiles are the same.
pub async fn all_data_is_still_there(fixture: &dyn Fixture) {
    Capability::Durable.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(4).await;
    let first = chat.cut(NONE, summary_to(1, "first")).await;
    let default = chat.cut(first.version, summary_to(2, "second")).await;
    let small = profile("small");
    chat.compact_as(&small, NONE, summary_to(3, "small")).await.must("the cut is legal", &CLAUSE);
    let (before, before_small) = (chat.window(Load::new()).await, chat.compaction(&small).await);

    let chat = reopen(chat, fixture).await;
    assert_eq!(chat.load(Load::new().known(before.known())).await, Loaded::Unchanged);
    assert_eq!(chat.window(Load::new()).await, before);
    assert_eq!(chat.compaction(&Profile::default()).await, Some(default));
    assert_eq!(chat.compaction(&small).await, before_small);
    assert_eq!(chat.log().await, log);
}

/// Appends, compactions and conditions continue from the same state.
pub async fn writing_continues(fixture: &dyn Fixture) {
    Capability::Durable.demand(fixture).await;
    let mut chat = Chat::new(fixture).await;
    let mut log = chat.add_turns(1).await;
    let mut replaces = NONE;
    for n in 1..4 {
        let (stale, at) = (chat.revision().await, chat.add(turn_of("x")).await);
        log.push(at);
        let revision = chat.revision().await;
        chat = reopen(chat, fixture).await;
        assert_conflict(chat.append(Expect::Exactly(stale), turn_of("stale")).await, revision);
        let exchange = turn_of("after");
        let appended = chat.append(Expect::Exactly(revision), exchange.clone()).await.must("nothing changed", &CLAUSE);
        assert_eq!(appended.seq, Seq::new(2 * n));
        log.push(Recorded::new(appended.seq, exchange));
        replaces = chat.cut(replaces, summary_to(n, "more")).await.version;
    }
    assert_eq!(chat.log().await, log);
}

/// Recorded exchange ids are still recognized.
pub async fn repeats_are_still_recognized(fixture: &dyn Fixture) {
    Capability::Durable.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let log = chat.add_turns(2).await;
    let chat = reopen(chat, fixture).await;
    for recorded in &log {
        let repeated = chat.append(Expect::Absent, (*recorded.exchange).clone()).await.must("it is recorded", &CLAUSE);
        assert_eq!((repeated.duplicate, repeated.seq), (true, recorded.seq));
        let asked = Load::new().exchange(recorded.exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(recorded.clone()));
    }
    assert_eq!(chat.log().await, log);
}

/// A deleted conversation stays deleted, and its incarnation stays ended.
pub async fn deletions_persist(fixture: &dyn Fixture) {
    Capability::Durable.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    chat.add_turns(2).await;
    let dead = chat.revision().await;
    chat.delete().await;
    let chat = reopen(chat, fixture).await;
    chat.assert_absent().await;
    assert_gone(chat.append(Expect::AnyIn(dead.incarnation()), turn_of("late")).await);
    chat.add_turns(1).await;
    assert_ne!(chat.incarnation().await, dead.incarnation());
}

/// Messages that are difficult to store survive a reopening too.
pub async fn messages_come_back_verbatim(fixture: &dyn Fixture) {
    Capability::Durable.demand(fixture).await;
    let chat = Chat::new(fixture).await;
    let odd = message(
        "{ \"z\":1.50, \"role\" : \"user\",\"content\":\"\\u0000 \\ud83d \u{2028} é e\u{301}\",\n\"x\":1e400 }",
    );
    let exchange = Exchange::new(ExchangeId::generate(), [odd.clone()]);
    chat.add(exchange).await;
    let chat = reopen(chat, fixture).await;
    assert_eq!(chat.log().await[0].exchange.messages[0].json(), odd.json());
}
