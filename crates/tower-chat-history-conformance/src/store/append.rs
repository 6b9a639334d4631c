//! Appends by one caller at a time.

use tower_chat_history_core::{Exchange, ExchangeId, Expect, Load, Message, Seq};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::GAP_FREE;

/// The first append creates the conversation, at position 0.
pub async fn the_first_append_creates_the_log(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    chat.assert_absent().await;
    let exchange = turn_of("hello");
    let appended = chat.append(Expect::Absent, exchange.clone()).await.must("nothing is there yet", &CLAUSE);
    assert_eq!((appended.seq, appended.duplicate, appended.compaction), (Seq::FIRST, false, None));
    let window = chat.window(Load::new()).await;
    assert_eq!(window.revision, appended.revision);
    assert_eq!(window.compaction, None);
    assert_eq!(window.exchanges.len(), 1);
    assert_eq!(*window.exchanges[0].exchange, exchange);
    assert_eq!(chat.log().await, window.exchanges);
}

/// The next append succeeds with the revision that the previous one returned, and with every other matching condition.
pub async fn fitting_expectations_are_accepted(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let first = chat.append(Expect::AnyOrCreate, turn_of("a")).await.must("it may create", &CLAUSE);
    let exactly = Expect::Exactly(first.revision);
    let second = chat.append(exactly, turn_of("b")).await.must("the log is at this revision", &CLAUSE);
    let any = Expect::AnyIn(first.revision.incarnation());
    let third = chat.append(any, turn_of("c")).await.must("the log is in this incarnation", &CLAUSE);
    let fourth = chat.append(Expect::AnyOrCreate, turn_of("d")).await.must("it expects nothing", &CLAUSE);
    assert_eq!([second.seq, third.seq, fourth.seq], [1, 2, 3].map(Seq::new));
    assert_eq!(chat.log().await.len(), 4);
}

/// Every append gives the log a revision that it never had, in the same incarnation.
pub async fn every_append_changes_the_revision(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        let appended = chat.append(Expect::AnyOrCreate, turn_of("x")).await.must("it expects nothing", &CLAUSE);
        assert!(!seen.contains(&appended.revision), "the revision {} a second time", appended.revision);
        assert_eq!(chat.revision().await, appended.revision, "a load after the append that returned the other");
        seen.push(appended.revision);
    }
    assert!(seen.iter().all(|revision| revision.incarnation() == seen[0].incarnation()), "{seen:?}");
}

/// Hundreds of single appends are in order, without a gap.
pub async fn many_appends_are_in_order(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let added = chat.add_turns(300).await;
    let seqs: Vec<u64> = added.iter().map(|recorded| recorded.seq.get()).collect();
    assert_eq!(seqs, (0..300).collect::<Vec<_>>());
    assert_eq!(chat.log().await, added);
}

/// Another handle sees an append immediately.
pub async fn an_append_is_seen_by_other_handles(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let other = chat.reopened(fixture).await;
    let first = chat.add(turn_of("from one")).await;
    assert_eq!(other.log().await, std::slice::from_ref(&first));
    let second = other.add(turn_of("from the other")).await;
    assert_eq!(chat.log().await, [first, second]);
    assert_eq!(chat.revision().await, other.revision().await);
}

/// An exchange without a reply, and one without any message, are allowed.
pub async fn an_exchange_may_lack_a_reply(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let question = Exchange::new(ExchangeId::generate(), [Message::user("anyone there?")]);
    let added = [chat.add(question).await, chat.add(Exchange::new(ExchangeId::generate(), [])).await];
    assert_eq!(chat.log().await, added);
    assert_eq!(chat.window(Load::new()).await.exchanges, added);
}

/// Conversations in one store do not share positions, revisions or incarnations.
pub async fn conversations_count_separately(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PROFILES;
    let chat = Chat::new(fixture).await;
    let other = chat.other();
    chat.add_turns(3).await;
    assert_eq!(other.add(turn_of("x")).await.seq, Seq::FIRST);
    assert_ne!(chat.incarnation().await, other.incarnation().await);
    assert_eq!((chat.log().await.len(), other.log().await.len()), (3, 1));
}
