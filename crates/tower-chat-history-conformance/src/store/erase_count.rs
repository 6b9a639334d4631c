//! The numbers that erasures report.

use tower_chat_history_core::{
    CompactionVersion, Cut, Expect, LabelsVersion, Profile, PruneTo, Recorded, Removed, Seq,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::COUNT;

const NONE: CompactionVersion = CompactionVersion::NONE;

/// Asserts that these are the numbers under `acme`, first as they are stored and then as they are erased.
async fn assert_numbers(owned: &Owned, expected: &Removed) {
    let under = owned.under(&["acme"]);
    for _ in 0..2 {
        assert_eq!(owned.count(&under).await, *expected);
    }
    {
        const CLAUSE: Clause = clause::ERASED;
        assert_eq!(owned.erase(&under, 1).await, *expected);
    }
    owned.assert_nothing(&under).await;
}

/// Nothing is counted under a prefix without conversations.
pub async fn nothing_is_counted_as_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    owned.chat(&["acme-2"]).add_turns(2).await;
    let nothing = owned.count(&owned.under(&["acme"])).await;
    assert_eq!(nothing.is_nothing(), true);
    assert_numbers(&owned, &Removed::default()).await;
}

/// Exchanges and their bytes are counted, and so are compactions of all profiles, summaries and labels.
pub async fn everything_is_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    for outside in [&["acme-2"] as &[&str], &["acm"], &["acme/a"]] {
        let chat = owned.chat(outside);
        chat.add_turns(2).await;
        chat.cut(NONE, summary_to(1, "of another")).await;
        owned.label(&chat, LabelsVersion::NONE, &labels([("title", "another")])).await;
    }
    let mut logs: Vec<Vec<Recorded>> = Vec::new();
    let chats = [owned.chat(&["acme"]), owned.chat(&["acme", "a"]), owned.chat(&["acme", "b"])];
    for (chat, turns) in chats.iter().zip([1, 3, 120]) {
        logs.push(chat.add_turns(turns).await);
    }
    let version = chats[1].cut(NONE, summary_to(1, "a summary")).await.version;
    chats[1].cut(version, summary_to(2, "a later summary")).await;
    let small = profile("small");
    let cut = chats[1].compact_as(&small, NONE, Cut::window_from(Seq::new(1))).await;
    stored(Some(cut.must("the cut is legal", &clause::COMPACT)));
    chats[2].cut(NONE, summary_to(100, "a summary")).await;
    for chat in &chats[1..] {
        owned.label(chat, LabelsVersion::NONE, &labels([("title", "x"), ("pinned", "")])).await;
    }
    let numbers = numbers_of(logs.iter().map(Vec::as_slice));
    assert_numbers(&owned, &with!(numbers, compactions: 3, summaries: 2, labels: 2)).await;
}

/// Repeated and refused appends count nothing.
pub async fn exchange_ids_are_counted_once(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let exchange = turn_of("once");
    let log = [chat.add(exchange.clone()).await];
    for expect in [Expect::AnyOrCreate, Expect::Absent] {
        chat.append(expect, exchange.clone()).await.must("a repeat is no error", &clause::IDEMPOTENT);
    }
    assert_conflict(chat.append(Expect::Absent, turn_of("x")).await, chat.revision().await);
    assert_numbers(&owned, &numbers_of([log.as_slice()])).await;
}

/// A deleted conversation leaves nothing that is counted.
pub async fn deletions_leave_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    chat.add_turns(3).await;
    chat.cut(NONE, summary_to(1, "a summary")).await;
    owned.label(&chat, LabelsVersion::NONE, &labels([("title", "x")])).await;
    chat.delete().await;
    assert_numbers(&owned, &Removed::default()).await;
}

/// Truncated exchanges are not counted, and neither are the compactions that were removed with them.
pub async fn truncated_exchanges_are_not_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let log = chat.add_turns(5).await;
    chat.cut(NONE, summary_to(4, "of what is removed")).await;
    owned.label(&chat, LabelsVersion::NONE, &labels([("title", "x")])).await;
    Editable::at(fixture, chat.id.clone()).await.keep(2).await;
    let left = chat.compaction(&Profile::default()).await;
    let compactions = u64::from(left.is_some());
    let summaries = u64::from(left.is_some_and(|left| left.cut.summary.is_some()));
    let numbers = numbers_of([&log[..2]]);
    assert_numbers(&owned, &with!(numbers, labels: 1, compactions, summaries)).await;
}

/// Pruned exchanges are not counted.
pub async fn pruned_exchanges_are_not_counted(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let chats = [owned.chat(&["acme", "a"]), owned.chat(&["acme", "b"])];
    let mut logs = Vec::new();
    for (chat, first) in chats.iter().zip([2, 3]) {
        let log = chat.add_turns(5).await;
        chat.cut(NONE, summary_to(1, "of what is removed")).await;
        let prunable = Prunable::at(fixture, chat.id.clone()).await;
        prunable.keep(PruneTo::From(Seq::new(first))).await;
        if first == 3 {
            prunable.forget(PruneTo::From(Seq::new(first))).await;
        }
        logs.push(log[first as usize..].to_vec());
    }
    let numbers = numbers_of(logs.iter().map(Vec::as_slice));
    assert_numbers(&owned, &with!(numbers, compactions: 1, summaries: 1)).await;
}
