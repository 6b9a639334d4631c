//! The entries of listings, in stores that list and erase.

use tower_chat_history_core::{
    Append, CompactionVersion, Exchange, ExchangeId, Expect, LabelsVersion, Listed, Prefix, PruneTo, Seq, Timestamp,
};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The sentence of the contract that this group tests.
const CLAUSE: Clause = clause::LIST;

/// Returns an exchange of this time, in milliseconds.
fn turn_at(millis: u64) -> Exchange {
    let mut exchange = turn_of(&format!("at {millis}"));
    exchange.at = Timestamp::from_unix_millis(millis);
    exchange
}

/// Asserts the times of a conversation's entry.
async fn assert_times(owned: &Owned, chat: &Chat, created: u64, updated: u64) {
    const CLAUSE: Clause = clause::UPDATED_AT;
    let entry = owned.entry(chat).await;
    let times = (entry.created_at.as_unix_millis(), entry.updated_at.as_unix_millis());
    assert_eq!(times, (created, updated));
}

/// A conversation is listed from its first append on, and not after its deletion.
pub async fn conversations_are_listed(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let under = owned.under(&["acme"]);
    let other = owned.reopened(fixture).await;
    let chats = [owned.chat(&["acme", "a"]), other.chat(&["acme", "b"])];
    assert_eq!(owned.list(&under, 10).await, []);
    for (at, chat) in chats.iter().enumerate() {
        chat.add_turns(2).await;
        for owned in [&owned, &other] {
            let ids: Vec<_> = owned.list(&under, 10).await.into_iter().map(|entry| entry.id).collect();
            assert_eq!(ids, [chats[0].id.clone(), chats[1].id.clone()][..=at]);
        }
    }
    chats[0].delete().await;
    for owned in [&owned, &other] {
        let ids: Vec<_> = owned.list(&under, 10).await.into_iter().map(|entry| entry.id).collect();
        assert_eq!(ids, std::slice::from_ref(&chats[1].id));
    }
    chats[1].delete().await;
    assert_eq!(other.list(&under, 10).await, []);
}

/// An entry says what the conversation has, and is the same in a listing and alone.
pub async fn an_entry_describes_its_conversation(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_CURRENT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let mut log = Vec::new();
    for millis in [5_000, 9_000, 7_000] {
        log.push(chat.add(turn_at(millis)).await);
        let entry = owned.entry(&chat).await;
        let (created, updated) = (log[0].exchange.at, log[log.len().min(2) - 1].exchange.at);
        assert_eq!(entry, Listed::new(chat.id.clone(), chat.revision().await, created, updated, bytes_of(&log)));
        assert_eq!(entry.labels_version, LabelsVersion::NONE);
    }
    // A compaction is not in the entry.
    let before = owned.entry(&chat).await;
    chat.cut(CompactionVersion::NONE, summary_to(1, "a summary")).await;
    assert_eq!(owned.entry(&chat).await, before);
}

/// A conversation that does not exist has no entry.
pub async fn an_absent_conversation_has_no_entry(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DESCRIBE;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    assert_eq!(owned.describe(&chat).await, None);
    chat.add_turns(1).await;
    for absent in [&["acme"] as &[&str], &["acme", "a", "b"], &["acme", "A"], &["acme/a"]] {
        assert_eq!(owned.describe(&owned.chat(absent)).await, None);
    }
    chat.delete().await;
    assert_eq!(owned.describe(&chat).await, None);
}

/// The first exchange sets the creation, and the latest time of all exchanges is the update, in any order of times.
pub async fn times_are_those_of_exchanges(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::UPDATED_AT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let now = 1_700_000_000_999;
    for (created, then, updated) in [(now, 5, now), (5, now, now), (0, 0, 0), (now, now + 1, now + 1)] {
        chat.add(turn_at(created)).await;
        assert_times(&owned, &chat, created, created).await;
        let exchange = turn_at(then);
        chat.add(exchange.clone()).await;
        assert_times(&owned, &chat, created, updated).await;
        // Nothing is stored by a repeat, even with another time.
        let repeat = with!(exchange, at: Timestamp::from_unix_millis(now + 100));
        let repeated = chat.append(Expect::AnyOrCreate, repeat).await.must("a repeat is no error", &CLAUSE);
        assert_eq!(repeated.duplicate, true);
        assert_times(&owned, &chat, created, updated).await;
        chat.delete().await;
    }
}

/// A log that begins at a position has an entry with its revision.
pub async fn an_entry_has_the_first_position(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LIST_CURRENT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let append = Append::new(Expect::Absent, turn_of("first")).beginning_at(Seq::new(9));
    let appended = chat.store.append(&chat.id, append).await.must("nothing is there yet", &clause::FIRST);
    let entry = owned.entry(&chat).await;
    assert_eq!((entry.revision, entry.revision.len()), (appended.revision, 1));
}

/// Truncation changes the revision and the size, not the times.
pub async fn an_entry_follows_a_truncation(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::UPDATED_AT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let mut log = Vec::new();
    for millis in [4_000, 5_000, 9_000, 7_000] {
        log.push(chat.add(turn_at(millis)).await);
    }
    let edit = Editable::at(fixture, chat.id.clone()).await;
    for len in [3, 2, 1] {
        edit.keep(len).await;
        let entry = owned.entry(&chat).await;
        assert_eq!((entry.revision, entry.bytes), (chat.revision().await, bytes_of(&log[..len as usize])));
        assert_times(&owned, &chat, 4_000, 9_000).await;
    }
    chat.add(turn_at(100)).await;
    assert_times(&owned, &chat, 4_000, 9_000).await;
    chat.add(turn_at(9_001)).await;
    assert_times(&owned, &chat, 4_000, 9_001).await;
    edit.keep(0).await;
    assert_eq!(owned.describe(&chat).await, None);
    assert_eq!(owned.list(&Prefix::from(&chat.id), 10).await, []);
    chat.add(turn_at(1)).await;
    assert_times(&owned, &chat, 1, 1).await;
}

/// Pruning changes the revision and the size, not the times.
pub async fn an_entry_follows_a_prune(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::UPDATED_AT;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme", "a"]);
    let mut log = Vec::new();
    for millis in [4_000, 9_000, 5_000, 7_000] {
        log.push(chat.add(turn_at(millis)).await);
    }
    let prunable = Prunable::at(fixture, chat.id.clone()).await;
    for first in 1..4 {
        let pruned = if first == 2 {
            prunable.forget(PruneTo::From(Seq::new(first))).await
        } else {
            prunable.keep(PruneTo::From(Seq::new(first))).await
        };
        let entry = owned.entry(&chat).await;
        assert_eq!((entry.revision, entry.bytes), (pruned.revision, bytes_of(&log[first as usize..])));
        assert_times(&owned, &chat, 4_000, 9_000).await;
    }
    log.push(chat.add(turn_at(9_500)).await);
    assert_times(&owned, &chat, 4_000, 9_500).await;
    assert_eq!(owned.entry(&chat).await.bytes, bytes_of(&log[3..]));
}

/// The size counts bytes of message JSON: of recalled messages, none, and of exchanges without messages, none.
pub async fn an_entry_counts_bytes_of_messages(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::LISTED_BYTES;
    let owned = Owned::new(fixture).await;
    let chat = owned.chat(&["acme"]);
    let mut log = Vec::new();
    let id = ExchangeId::generate;
    let exchanges = [
        Exchange::new(id(), []),
        Exchange::new(id(), [message(r#"{ "role" : "user", "content":"é\u0000 \ud83d\ude00" }"#)]),
        turn_of(&"x".repeat(100_000)),
        with!(turn_of("y"), model: Some("a-model".into())),
    ];
    for exchange in exchanges {
        log.push(chat.add(exchange).await);
        assert_eq!(owned.entry(&chat).await.bytes, bytes_of(&log));
    }
}

/// Entries and their times are still there after the storage is opened again.
pub async fn entries_persist(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::DURABLE;
    let owned = Owned::new(fixture).await;
    let chats = [owned.chat(&["acme", "a"]), owned.chat(&["acme", "b"])];
    for chat in &chats {
        chat.add(turn_at(5_000)).await;
        owned.label(chat, LabelsVersion::NONE, &labels([("title", "kept")])).await;
    }
    let (under, before) = (owned.under(&["acme"]), owned.list(&owned.under(&["acme"]), 10).await);
    assert_eq!(before.len(), 2);
    drop((owned, chats));
    assert_eq!(Owned::new(fixture).await.list(&under, 10).await, before);
}
