//! Concurrent callers, each with its own handle.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{
    Appended, Exchange, ExchangeId, Expect, Load, Loaded, Message, Recorded, Seq, StoreError,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::CONDITIONAL;

/// Runs several appends at the same time, and returns them with their results. Their exchanges have several messages
/// each.
async fn race(handles: &[Chat], count: usize, expect: Expect) -> Vec<(Exchange, Result<Appended, StoreError>)> {
    let exchange = |n: usize| {
        let messages = (0..4).map(|part| Message::user(format!("append {n}, part {part}")));
        Exchange::new(ExchangeId::generate(), messages)
    };
    let appends = handles.iter().cycle().take(count).enumerate().map(|(n, chat)| async move {
        let exchange = exchange(n);
        let result = chat.append(expect, exchange.clone()).await;
        (exchange, result)
    });
    join_all(appends).await
}

/// Asserts that all appends were stored, each whole and at its reported position, without a gap after `before`.
async fn assert_all_landed(chat: &Chat, before: &[Recorded], raced: Vec<(Exchange, Result<Appended, StoreError>)>) {
    const CLAUSE: Clause = clause::GAP_FREE;
    let mut expected = before.to_vec();
    let mut revisions = Vec::new();
    for (exchange, result) in raced {
        let appended = result.must("every append may land", &CLAUSE);
        assert!(!appended.duplicate && !revisions.contains(&appended.revision), "{appended:?}");
        revisions.push(appended.revision);
        expected.push(Recorded::new(appended.seq, exchange));
    }
    expected.sort_by_key(|recorded| recorded.seq);
    assert_eq!(chat.log().await, expected);
    assert!(revisions.contains(&chat.revision().await), "a log at a revision that no append made");
}

/// Asserts that one append was stored and the others conflicted.
async fn assert_one_landed(chat: &Chat, before: &[Recorded], raced: Vec<(Exchange, Result<Appended, StoreError>)>) {
    let mut expected = before.to_vec();
    for (exchange, result) in raced {
        match result {
            Ok(appended) => expected.push(Recorded::new(appended.seq, exchange)),
            Err(error) => assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}"),
        }
    }
    assert_eq!(expected.len(), before.len() + 1, "several appends expected one revision");
    assert_eq!(chat.log().await, expected);
}

/// Of several appends that expect the same revision, exactly one is stored.
pub async fn one_append_wins_a_revision(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 2).await;
    chat.add_turns(1).await;
    for _ in 0..5 {
        let (before, at) = (chat.log().await, chat.revision().await);
        let raced = race(&handles, 8, Expect::Exactly(at)).await;
        assert_one_landed(&chat, &before, raced).await;
    }
}

/// Of several first turns that expect no conversation, exactly one is stored.
pub async fn one_first_turn_wins(fixture: &dyn Fixture) {
    for _ in 0..5 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 2).await;
        let raced = race(&handles, 8, Expect::Absent).await;
        assert_one_landed(&chat, &[], raced).await;
    }
}

/// Appends that accept any revision are all stored, whole and without a gap.
pub async fn appends_to_any_revision_all_land(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 4).await;
    let before = chat.add_turns(1).await;
    let raced = race(&handles, 24, Expect::AnyIn(chat.incarnation().await)).await;
    assert_all_landed(&chat, &before, raced).await;
}

/// Appends that may create the conversation are all stored, in one incarnation.
pub async fn appends_that_may_create_all_land(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ANY_OR_CREATE;
    for _ in 0..3 {
        let chat = Chat::new(fixture).await;
        let handles = chat.handles(fixture, 4).await;
        let raced = race(&handles, 12, Expect::AnyOrCreate).await;
        let incarnations: Vec<_> = raced.iter().filter_map(|(_, result)| result.as_ref().ok()).collect();
        assert!(
            incarnations.iter().all(|a| a.revision.incarnation() == incarnations[0].revision.incarnation()),
            "{incarnations:?}"
        );
        assert_all_landed(&chat, &[], raced).await;
    }
}

/// Callers that retry after a conflict all succeed.
pub async fn callers_that_retry_all_land(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    chat.add_turns(1).await;
    let retrying = handles.iter().map(|chat| async move {
        for n in 0..4 {
            let exchange = turn_of(&n.to_string());
            loop {
                let at = chat.revision().await;
                pause().await;
                match chat.append(Expect::Exactly(at), exchange.clone()).await {
                    Ok(_) => break,
                    Err(StoreError::Conflict { .. }) => {}
                    Err(other) => unexpected!("the append to be stored, or the refusal `Conflict`", other),
                }
            }
        }
    });
    join_all(retrying).await;
    assert_eq!(chat.log().await.len(), 13);
}

/// Concurrent appends to many conversations are each stored in their own.
pub async fn conversations_do_not_disturb_each_other(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::PROFILES;
    let chat = Chat::new(fixture).await;
    let others: Vec<Chat> = (0..10).map(|_| chat.other()).collect();
    let filled = join_all(others.iter().map(|chat| chat.add_turns(5))).await;
    for (other, added) in others.iter().zip(filled) {
        assert_eq!(other.log().await, added);
    }
}

/// A load or a read during appends returns a state that existed: its revision and its exchanges belong together.
pub async fn readers_see_states_that_existed(fixture: &dyn Fixture) {
    let chat = Chat::new(fixture).await;
    let handles = chat.handles(fixture, 3).await;
    let first = chat.append(Expect::Absent, turn_of("0")).await.must("nothing is there yet", &CLAUSE);
    let mut made = vec![(first.revision, first.seq)];
    let writing = async {
        for n in 1..20 {
            let appended = handles[0].append(Expect::AnyOrCreate, turn_of(&n.to_string())).await;
            let appended = appended.must("it expects nothing", &CLAUSE);
            made.push((appended.revision, appended.seq));
            pause().await;
        }
    };
    let reading = async {
        let mut seen = Vec::new();
        for _ in 0..20 {
            let (loaded, page) =
                join(handles[1].load(Load::new()), handles[2].store.read(&chat.id, Seq::FIRST, 100)).await;
            let Loaded::Window(window) = loaded else { panic!("the conversation is there") };
            seen.push((window.revision, window.exchanges));
            let page = page.must("the log can be read", &CLAUSE);
            if !page.more {
                seen.push((page.revision.must("the conversation is there", &CLAUSE), page.exchanges));
            }
            pause().await;
        }
        seen
    };
    let ((), seen) = join(writing, reading).await;
    for (revision, exchanges) in seen {
        let last = exchanges.last().must("there is an exchange", &CLAUSE).seq;
        assert!(made.contains(&(revision, last)), "revision {revision} with exchanges up to {last}");
        assert!(
            exchanges.iter().enumerate().all(|(at, recorded)| recorded.seq == Seq::new(at as u64)),
            "{exchanges:?}"
        );
    }
}
