//! Erasures at the same time as other calls.

use futures_util::future::{join, join_all};
use tower_chat_history_core::{Expect, Removed, Seq, StoreError};

use super::{Fixture, support::*};
use crate::clause::{self, Clause};

/// The ends of the ids of this group's conversations.
const ENDS: [&str; 4] = ["a", "b", "c", "d"];

/// Waits for this many turns of other tasks.
async fn pauses(count: usize) {
    for _ in 0..count {
        pause().await;
    }
}

/// First turns that began before the bar leave nothing, however late they are.
pub async fn first_turns_from_before_leave_nothing(fixture: &dyn Fixture) {
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats: Vec<Chat> = ENDS.iter().map(|end| other.chat(&["acme", end])).collect();
        let epochs = join_all(chats.iter().map(Chat::epoch)).await;
        let creating = join_all(chats.iter().zip(epochs).enumerate().map(|(n, (chat, epoch))| async move {
            pauses(n).await;
            let _ = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("first")).await);
            pauses(n).await;
            let _ = landed(chat.append_since(epoch, Expect::AnyOrCreate, turn_of("second")).await);
        }));
        let erasing = async {
            pauses(wait).await;
            owned.bar(&under).await;
            owned.erase(&under, 2).await;
        };
        join(creating, erasing).await;
        owned.assert_nothing(&under).await;
    }
}

/// Appends that name an incarnation are stored before the erasure or refused, and leave nothing.
pub async fn appends_to_incarnations_leave_nothing(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::IN_FLIGHT;
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats: Vec<Chat> = ENDS.iter().map(|end| other.chat(&["acme", end])).collect();
        for chat in &chats {
            chat.add_turns(2).await;
        }
        let incarnations = join_all(chats.iter().map(Chat::incarnation)).await;
        let appending = join_all(chats.iter().zip(incarnations).map(|(chat, incarnation)| async move {
            let mut stored = 2;
            for _ in 0..4 {
                match chat.append(Expect::AnyIn(incarnation), turn_of("next")).await {
                    Ok(appended) => {
                        assert_eq!(appended.seq, Seq::new(stored));
                        stored += 1;
                    }
                    Err(StoreError::Gone) => {}
                    Err(error) => unexpected!("the append to be stored, or the refusal `Gone`", error),
                }
                pause().await;
            }
            stored
        }));
        let erasing = async {
            pauses(wait).await;
            owned.erase(&under, 2).await
        };
        let (stored, removed) = join(appending, erasing).await;
        owned.assert_nothing(&under).await;
        // Each acknowledged exchange was erased and counted.
        assert_eq!(removed.exchanges, stored.into_iter().sum::<u64>());
    }
}

/// Appends that may create conversations leave whole ones, which a repeated erasure erases.
pub async fn later_conversations_are_whole(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_WHOLE;
    let owned = Owned::new(fixture).await;
    let other = owned.reopened(fixture).await;
    let under = owned.under(&["acme"]);
    for wait in 0..6 {
        let chats: Vec<Chat> = ENDS.iter().map(|end| other.chat(&["acme", end])).collect();
        let appending = join_all(chats.iter().map(|chat| async move {
            for n in 0..4 {
                let appended = chat.append(Expect::AnyOrCreate, turn_of("next")).await;
                let appended = appended.must("it expects nothing", &clause::ANY_OR_CREATE);
                assert!(appended.seq <= Seq::new(n), "{appended:?}, in a log of {n} exchanges");
                pause().await;
            }
        }));
        let erasing = async {
            pauses(wait).await;
            owned.bar(&under).await;
            owned.erase(&under, 3).await;
        };
        join(appending, erasing).await;
        let mut logs = Vec::new();
        for chat in &chats {
            // Reading checks that there is no gap.
            logs.push(chat.log().await);
        }
        let there = numbers_of(logs.iter().map(Vec::as_slice).filter(|log| !log.is_empty()));
        assert_eq!(owned.count(&under).await, there);
        assert_eq!(owned.list(&under, 10).await.len() as u64, there.conversations);
        assert_eq!(owned.erase(&under, 3).await, there);
        owned.assert_nothing(&under).await;
    }
}

/// Of several racing erasures, one erases each conversation and counts it.
pub async fn racing_erasures_count_once(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASED;
    let owned = Owned::new(fixture).await;
    let mut handles = Vec::new();
    for _ in 0..3 {
        handles.push(owned.reopened(fixture).await);
    }
    let under = owned.under(&["acme"]);
    for limit in 1..=4 {
        let mut logs = Vec::new();
        for end in ENDS {
            logs.push(owned.chat(&["acme", end]).add_turns(3).await);
        }
        let removed = join_all(handles.iter().map(|owned| owned.erase(&under, limit))).await;
        let mut total = Removed::default();
        removed.into_iter().for_each(|removed| total += removed);
        assert_eq!(total, numbers_of(logs.iter().map(Vec::as_slice)));
        owned.assert_nothing(&under).await;
    }
}

/// A dropped erasure leaves whole conversations, and a repeat erases what is left.
pub async fn a_dropped_erasure_is_repeated(fixture: &dyn Fixture) {
    const CLAUSE: Clause = clause::ERASE_AGAIN;
    for polls in [0, 1, 2, 3, 4, 10, 100] {
        // The erasure that was dropped before may still be running, so each one has conversations of its own.
        let owned = Owned::new(fixture).await;
        let (under, outside) = (owned.under(&["acme"]), owned.chat(&["acme-2"]));
        let other = outside.add_turns(2).await;
        let mut logs = Vec::new();
        for end in ENDS {
            let chat = owned.chat(&["acme", end]);
            let log = chat.add_turns(3).await;
            logs.push((chat, log));
        }
        abandon(owned.store.erase(&under, None, 3), polls).await;
        for (chat, log) in &logs {
            let left = chat.log().await;
            assert!(left.is_empty() || left == *log, "{left:?}, after {polls} polls of an erasure");
        }
        owned.erase(&under, 3).await;
        owned.assert_nothing(&under).await;
        assert_eq!(outside.log().await, other);
    }
}
