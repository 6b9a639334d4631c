//! Appends that are repeated under their exchange id.

use futures_util::future::join_all;
use tower_chat_history_core::{
    Append, Compact, CompactionVersion, Cut, Exchange, ExchangeId, Expect, Incarnation, Load, Loaded, Message, Profile,
    Revision, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::IDEMPOTENT;

/// More exchanges than a store would remember if it remembered only the newest ids.
const LONG_LOG: usize = 300;

async fn assert_duplicate(chat: &Chat, expect: Expect, exchange: Exchange, seq: Seq) {
    let appended = chat.append(expect, exchange).await;
    let appended = appended.must(&format!("it is a repeat, whatever it expects ({expect:?})"), &CLAUSE);
    assert!(appended.duplicate, "{appended:?}, for a repeat that expects {expect:?}");
    assert_eq!(appended.seq, seq, "a repeat that expects {expect:?}");
    assert_eq!(appended.revision, chat.revision().await, "a repeat that expects {expect:?}");
    assert_eq!(appended.compaction, None);
}

/// A repeated append stores nothing and returns the recorded position, whatever it expects.
pub async fn a_repeat_stores_nothing(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut added = chat.add_turns(2).await;
    let stale = chat.revision().await;
    let exchange = turn_of("once");
    added.push(chat.add(exchange.clone()).await);
    added.push(chat.add(turn_of("after")).await);
    let now = chat.revision().await;
    for expect in [
        Expect::AnyOrCreate,
        Expect::AnyIn(now.incarnation()),
        Expect::AnyIn(Incarnation::random()),
        Expect::Exactly(now),
        Expect::Exactly(stale),
        Expect::Exactly(Revision::new(Incarnation::random(), 1)),
        Expect::Absent,
    ] {
        assert_duplicate(&chat, expect, exchange.clone(), Seq::new(2)).await;
    }
    assert_eq!(chat.log().await, added);
    assert_eq!(chat.revision().await, now);
}

/// A first turn can be repeated unchanged.
pub async fn a_first_append_can_be_repeated(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let exchange = turn_of("once");
    chat.append(Expect::Absent, exchange.clone()).await.must("nothing is there yet", &CLAUSE);
    assert_duplicate(&chat, Expect::Absent, exchange, Seq::FIRST).await;
    assert_eq!(chat.log().await.len(), 1);
}

/// Only the id matters: the other contents of a repeat are neither stored nor checked.
pub async fn a_repeat_does_not_change_what_is_recorded(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(2).await;
    let id = added[1].exchange.id.clone();
    let mut other = Exchange::new(id, [Message::user("other")]).continuing(Seq::new(99));
    other.model = Some("other".into());
    let cut = Cut::window_from(Seq::new(1));
    for cut in [cut, Cut::window_from(Seq::new(99))] {
        let compact = Compact::new(Profile::default(), CompactionVersion::NONE, cut);
        let repeat = Append::new(Expect::AnyOrCreate, other.clone()).compact(compact);
        let appended = chat.store.append(&chat.id, repeat).await.must("the id is recorded", &CLAUSE);
        assert_eq!((appended.duplicate, appended.seq, appended.compaction), (true, Seq::new(1), None));
    }
    assert_eq!(chat.log().await, added);
    assert_eq!(chat.window(Load::new()).await.compaction, None);
}

/// Racing repeats store the exchange once, and all return the same position.
pub async fn racing_repeats_store_once(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 4).await;
    for round in 0..4 {
        // The first round also creates the conversation.
        let exchange = turn_of(&format!("round {round}"));
        let repeats = handles.iter().cycle().take(12).map(|chat| chat.append(Expect::AnyOrCreate, exchange.clone()));
        let appended = join_all(repeats).await.into_iter().map(|appended| appended.must("it expects nothing", &CLAUSE));
        let appended: Vec<_> = appended.collect();
        assert_eq!(appended.iter().filter(|appended| !appended.duplicate).count(), 1);
        assert!(appended.iter().all(|appended| appended.seq == Seq::new(round)), "{appended:?}");
        assert_eq!(chat.log().await.len() as u64, round + 1);
    }
}

/// An exchange id belongs to its conversation: another conversation may use the same one.
pub async fn ids_belong_to_their_conversation(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    let exchange = turn_of("the same");
    assert_eq!(other.add(turn_of("before")).await.seq, Seq::FIRST);
    chat.add(exchange.clone()).await;
    assert_eq!(other.add(exchange.clone()).await.seq, Seq::new(1));
    assert_duplicate(&other, Expect::Absent, exchange.clone(), Seq::new(1)).await;
    assert_duplicate(&chat, Expect::Absent, exchange, Seq::FIRST).await;
}

/// Exchange ids are compared byte by byte: case, prefixes and wildcards make different ids.
pub async fn similar_ids_are_different(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let (long, longer) = ("x".repeat(ExchangeId::MAX_LEN - 1), "x".repeat(ExchangeId::MAX_LEN));
    let other_end = format!("{long}y");
    let ids =
        ["a", "A", "ab", "a%", "a_", "a*", "a?", "a'", "a\"", "a\\", "a/b", "a:b", "1", "01", "1.0", "{}", "null"];
    for id in ids.into_iter().chain([long.as_str(), &longer, &other_end]) {
        let id = ExchangeId::new(id).expect("the id is legal");
        let recorded = chat.add(Exchange::new(id.clone(), [Message::user(id.as_str())])).await;
        assert_duplicate(&chat, Expect::Absent, (*recorded.exchange).clone(), recorded.seq).await;
        let found = chat.load(Load::new().exchange(id)).await;
        assert_eq!(found, Loaded::AlreadyRecorded(recorded));
    }
}

/// An append and a load recognize an exchange id, however many exchanges came after it.
pub async fn a_repeat_is_recognized_in_a_long_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(LONG_LOG).await;
    for recorded in [&added[0], &added[1], &added[LONG_LOG / 2]] {
        assert_duplicate(&chat, Expect::AnyOrCreate, (*recorded.exchange).clone(), recorded.seq).await;
        let asked = Load::new().exchange(recorded.exchange.id.clone());
        assert_eq!(chat.load(asked).await, Loaded::AlreadyRecorded(recorded.clone()), "at {}", recorded.seq);
    }
    assert_eq!(chat.log().await, added);
}
